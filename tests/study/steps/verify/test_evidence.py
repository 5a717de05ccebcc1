"""Looks are recorded before they are shown; grades are made again from what they rest on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.episodes.result import RESULT_CODEC
from harness.models.providers.bodies import digest_reading
from harness.storage import EPISODE_CODEC, result_key
from registry.errors import StoreError
from registry.ledger.chain import Ledger
from registry.ledger.records import Look
from study import api
from study.errors import StudyError
from study.extras.calibrate.from_scores import CalibrateRequest, calibrate_study
from study.extras.transcripts.inspect_export import export_inspect
from study.extras.transcripts.show import list_records, open_transcript
from study.steps import pipeline
from study.steps.sweep.history import look_words
from study.steps.verify.regrade import differences, regrade_study
from study.steps.verify.verify import VerifyRequest, check_reports, verify
from study.workspace.address import open_study
from study.workspace.study import Study
from tests.ledgers import keys_of_cell
from tests.study.cli.program import run_in as run


@pytest.fixture
def study(finished: Study, tmp_path: Path) -> Study:
    folder = tmp_path / "small"
    shutil.copytree(finished.folder.parent / "untouched", folder)  # tests of others look at it
    return open_study(folder)


def looks(study: Study) -> list[Look]:
    return [entry.record for entry in study.ledger.find("look")]


def show_one(study: Study) -> None:
    episode = next(study.store.list("attempts/")).rpartition("/")[2][:64]
    open_transcript(study, episode, None, False, True)


LOOKS: list[tuple[Callable[[Study, Path], object], str]] = [
    (lambda study, out: list_records(study, None, None, True), "show --arm"),
    (lambda study, out: show_one(study), "show --arm"),
    (lambda study, out: export_inspect(study, out, None, "public", False), "export --arm public"),
    (lambda study, out: calibrate_study(study, CalibrateRequest((1.0,), 2)), "calibrate"),
    (lambda study, out: api.StudyView(study).results(), "python: results()"),
]


@pytest.mark.parametrize(("look", "command"), LOOKS, ids=[c for _, c in LOOKS])
def test_what_joins_arms_and_scores_is_recorded_once(
    study: Study, tmp_path: Path, look: Callable[[Study, Path], object], command: str
) -> None:
    before = looks(study)
    look(study, tmp_path / "one")
    (made,) = [record for record in looks(study) if record not in before]
    assert made.command == command
    assert {wave for wave, _ in made.waves} <= {0, 1}
    assert all(count in (24, 48) for _, count in made.waves)
    look(study, tmp_path / "two")
    assert looks(study) == [*before, made], "the same look at the same results"


class ReadOnly:
    """A store that takes nothing."""

    def __init__(self, study: Study) -> None:
        store = study.store
        self.uri, self.get, self.exists, self.list = store.uri, store.get, store.exists, store.list

    def put(self, key: str, data: bytes) -> bool:
        raise StoreError(f"{key}: read-only")

    def replace(self, key: str, data: bytes) -> None:
        raise StoreError(f"{key}: read-only")


@pytest.mark.parametrize(("look", "command"), LOOKS, ids=[c for _, c in LOOKS])
def test_nothing_is_shown_if_it_cannot_be_recorded(
    study: Study, tmp_path: Path, look: Callable[[Study, Path], object], command: str
) -> None:
    store = ReadOnly(study)
    closed = replace(study, store=store, ledger=Ledger(store, study.signer))
    for entry in study.ledger.find("look"):  # of other tests: those would be no new looks
        os.unlink(study.folder / "store" / f"ledger/{entry.sequence:08d}.json")
    with pytest.raises(StudyError, match=r"the ledger records first, and it takes no record.*read"):
        look(closed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_transcript_or_list_without_arms_is_no_look(study: Study) -> None:
    before = len(study.ledger.entries())
    list_records(study, None, None, False)
    assert run(study, "show").exit_code == 0
    assert run(study, "show", "--tools").exit_code == 0
    assert len(study.ledger.entries()) == before


def test_a_report_names_the_looks_before_it(study: Study) -> None:
    entries = study.ledger.entries()
    report = next(entry.sequence for entry in entries if entry.kind == "report")
    began = [entry for entry in entries if entry.kind == "wave-closed"][-1].sequence + 1
    look = replace(entries[report], kind="look", body={"command": "show --arm", "waves": [[1, 48]]})
    early = (*entries[:began], look, *entries[began : report + 1])
    early = tuple(replace(entry, sequence=number) for number, entry in enumerate(early))
    (words,) = look_words(early)
    assert words.startswith("Arms and scores were looked at once other than by a report, before")
    assert f"`show --arm` at wave 1 on {look.time[:10]}" in words
    late = (*entries[: report + 1], replace(look, sequence=report + 1))
    (words,) = look_words(late)
    assert "never before the report of a wave" in words
    assert list(look_words(entries[:report])) == []


def test_every_grade_is_made_again(study: Study) -> None:
    found = json.loads(run(study, "verify", "--regrade", "--json").stdout)
    assert found["holds"], found["problems"]
    assert dict(found["counts"])["grades made again"] == 72
    without = json.loads(run(study, "verify", "--json").stdout)
    assert "--regrade was not given" in without["unchecked"][-1]


def test_regrading_takes_the_key(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(study.folder / "none"))
    ended = run(study, "verify", "--regrade")
    assert (ended.exit_code, "--regrade opens every attempt" in ended.stderr) == (2, True)


def test_a_row_is_named_whose_replies_this_code_reads_otherwise(study: Study) -> None:
    key = next(study.store.list("attempts/"))
    attempt = EPISODE_CODEC.read(study.store, key, study.keys())
    keys = keys_of_cell(study, key)
    raw = b'{"choices": [{"message": {"content": "SECRET"}, "finish_reason": "stop"}]}'
    readings = (digest_reading("chat", 200, raw), "chat 200 sha256:0")
    for reading in readings:
        (*before, last) = attempt.steps
        last = replace(last, reply=replace(last.reply, raw=raw, reading=reading))
        study.store.delete([key])
        assert EPISODE_CODEC.write(study.store, key, replace(attempt, steps=(*before, last)), keys)
        counts: dict[str, int] = {}
        found = [*regrade_study(study, lambda *step: None, 1, counts)]
        named = [(place, said) for place, said in found if "otherwise" in said]
        assert counts["replies read again"] == 1
        assert len(named) == (reading != readings[0])
    ((place, said),) = named
    assert (place, "SECRET" in said) == (result_key(attempt.id), False)
    assert f"turns {len(attempt.steps)} otherwise" in said


def test_fields_that_differ_are_named_and_not_shown(study: Study) -> None:
    key = next(study.store.list("results/"))
    result = RESULT_CODEC.read(study.store, key, study.keys())
    other = replace(result, score=0.123, grade=replace(result.grade, parts=("x",), score=0.5))
    assert differences(result, other) == ["score", "grade.parts", "grade.score"]
    assert differences(result, result) == []


def test_a_copy_of_the_release_is_compared(study: Study, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(study.folder / "release", copy)
    (copy / ".cache").mkdir()
    (copy / ".cache" / "etag").write_text("a downloader's own")
    assert run(study, "verify", "--release", str(copy)).exit_code == 0
    (copy / "more.txt").write_text("more")
    ended = run(study, "verify", "--release", str(copy))
    assert (ended.exit_code, "more.txt: not a file of the release" in ended.stdout) == (3, True)
    (copy / "checksums.json").unlink()
    ended = run(study, "verify", "--release", str(copy))
    assert "checksums.json: cannot be read" in ended.stdout
    ended = run(study, "verify", "--release", str(tmp_path / "nowhere"))
    assert (ended.exit_code, "no folder" in ended.stderr) == (2, True)


def test_a_file_that_no_report_has_and_a_wave_without_a_report_are_named(study: Study) -> None:
    (study.folder / "reports" / "wave-1" / "final.html").write_text("contaminated: +31 points")
    ended = run(study, "verify")
    words = "reports/wave-1/final.html: not a file of a recorded report"
    assert (ended.exit_code, words in ended.stdout) == (3, True)
    entries = study.ledger.entries()
    issued = next(entry for entry in entries if entry.kind == "report")
    early = replace(issued, body=issued.body | {"through_wave": 0})
    kept = [early if entry is issued else entry for entry in entries]
    assert ("", "wave 1 is closed, and no report has it") in [*check_reports(study, kept)]


def test_what_is_not_there_is_said(study: Study) -> None:
    shutil.rmtree(study.folder / "release")
    shutil.rmtree(study.folder / "reports")
    found = verify(study, VerifyRequest(), lambda *step: None)
    assert any("the released files: they are not in" in line for line in found.unchecked)
    assert any("the report through wave 1: its files" in line for line in found.unchecked)
    assert pipeline.verify(study, VerifyRequest(), lambda *step: None).unchecked == found.unchecked

"""A study of two dressings: swept by the program, published, verified."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from registry.canonical import canonical_bytes
from registry.draws.allocation import sealed_strata
from registry.draws.reveal import reveal_record
from registry.provenance import utc_now
from study import api
from study.errors import StudyError
from study.extras.reveal.reveal import check_revealed, reveal, unit_to_reveal
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.lint.later_refusals import unproved_tasks
from study.steps.publish.release import scan_for_leaks
from study.steps.verify.verify import VerifyRequest
from study.workspace.study import Study
from tests import external_check
from tests.cases import cases
from tests.conftest import ROOT
from tests.study.cli.program import run
from tests.study.conftest import promise_unchecked

STUDY = cases(__file__, "study")
LEDGER = "dressings/compute_average_ledger.yaml"
UNIT = "compute_average_ledger/easy"


def nobody(what: str, done: int, of: int) -> None:
    """Watch no progress."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "tests/data/dressings", tmp_path / "dressings")
    return tmp_path


def test_a_study_of_dressings_runs_from_draw_to_verification(folder: Path) -> None:
    init_study(folder, STUDY)
    study = pipeline.open_study(folder)
    strata = [task.stratum for task in study.protocol.tasks]
    assert strata == ["compute_average_ledger/easy", "order_statistics_series/easy"]
    assert dict(unproved_tasks(study.protocol, nobody)) == {}
    promise_unchecked(study)
    swept = run("sweep", "--study", str(folder), "--wave", "0", "--allow-dirty", "--workers", "1")
    assert swept.exit_code == 0, swept.output
    pipeline.publish(study, None, nobody)
    release = folder / "release"
    published = {each.stem: each.read_text() for each in (release / "templates").iterdir()}
    assert published["compute_average_ledger"] == (folder / LEDGER).read_text()
    tables = map(pq.read_table, (release / "data").rglob("*.parquet"))
    files = chain(*(row["input_files"] for table in tables for row in table.to_pylist()))
    assert {f["path"] for f in files} == {
        "ledger/readings.txt",
        "data/series.txt",
        "data/asked.txt",
    }
    assert {*api.open_study(folder).results()["score"]} == {1.0}
    assert pipeline.verify(study, VerifyRequest(), nobody).holds


@pytest.mark.parametrize(("old", "new", "line", "words"), cases(__file__, "refused"))
def test_a_faulty_dressing_is_named_at_its_task(
    folder: Path, old: str, new: str, line: int, words: str
) -> None:
    path = folder / LEDGER
    path.write_bytes(path.read_text().replace(old, new).encode("latin-1", "replace"))
    with pytest.raises(StudyError, match=re.escape(f"{path.name}:{line}: ")) as caught:
        init_study(folder, STUDY)
    assert words in str(caught.value)


PAIRED = STUDY.replace("[easy]}", "[easy], pair: mean}", 1).replace(*cases(__file__, "sibling"))


@pytest.fixture
def sealed(folder: Path) -> Study:
    """A released study of a pair whose dressing stays sealed."""
    init_study(folder, PAIRED)
    study = pipeline.open_study(folder)
    promise_unchecked(study)
    assert sealed_strata(study.sealed_set()) == {UNIT}
    pipeline.publish(study, None, nobody)
    return study


def test_the_file_of_a_sealed_sibling_is_in_no_release_and_found_in_one(sealed: Study) -> None:
    release, text = sealed.folder / "release", (sealed.folder / LEDGER).read_text()
    assert not (release / "templates").exists()
    assert scan_for_leaks(sealed, [release], nobody) == ()
    for name in ("README.md", "templates/theirs.yml", "notes"):
        path = release / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{path.read_text() if path.exists() else ''}\n{text}")
        assert {leak.file for leak in scan_for_leaks(sealed, [path], nobody)} == {str(path)}


def test_a_reveal_shows_the_file_of_a_sealed_sibling(sealed: Study) -> None:
    path = reveal(sealed, (0,), "over", utc_now)[1]
    assert check_revealed(sealed, path, nobody) == (12, ())
    shown = json.loads(path.read_text())
    (unit,) = shown["units"]
    assert unit["files"][0][1] == (sealed.folder / LEDGER).read_text()
    for key, value in (("key", "00" * 32), ("key", "no key"), ("files", [])):
        path.write_bytes(canonical_bytes(shown | {"units": [unit | {key: value}]}))
        assert f"files of unit {UNIT}" in " ".join(check_revealed(sealed, path, nobody)[1])


def test_a_sealed_sibling_is_revealed_alone(sealed: Study) -> None:
    text, place = (sealed.folder / LEDGER).read_text(), ("--study", str(sealed.folder))
    reason, sweep = ("--reason", "used up", "--yes", *place), (*place, "--allow-dirty")
    assert run("sweep", "--wave", "0", *sweep).exit_code == 0
    refused = run("reveal", UNIT, "--yes", *place)
    assert (refused.exit_code, "wave 1 (planned)" in refused.stderr) == (2, True)
    (sealed.folder / LEDGER).write_text(text.replace("A logger", "One logger"))
    assert "not those that were announced" in run("reveal", UNIT, *reason).stderr
    (sealed.folder / LEDGER).write_text(text)
    assert not sealed.ledger.find("revealed")
    done = run("reveal", UNIT, *reason)
    assert done.exit_code == 0, done.output
    path = sealed.folder / "reveal-unit-compute_average_ledger-easy.json"
    shown = json.loads(path.read_text())
    assert (shown["tranches"], shown["seeds"]) == ([], [])
    assert [(unit["name"], unit["files"][0][1]) for unit in shown["units"]] == [(UNIT, text)]
    assert scan_for_leaks(sealed, [path, sealed.folder / LEDGER], nobody) == ()
    assert not any(entry.seed in path.read_text() for entry in sealed.entries())
    path.unlink()  # revealed again, it is written again, and recorded once
    assert (run("reveal", UNIT, *reason).exit_code, len(sealed.ledger.find("revealed"))) == (0, 1)
    assert run("reveal", "--check", str(path), *place).exit_code == 0
    assert run("sweep", "--wave", "1", *sweep).exit_code == 0
    pipeline.report(sealed)
    (page,) = sealed.folder.rglob("report.md")
    words = f"Before wave 1 the files of sealed units were revealed: {UNIT}."
    assert words in page.read_text().replace("\\", "")
    assert run("reveal", "--all", "--yes", *place).exit_code == 0
    assert pipeline.verify(sealed, VerifyRequest(), nobody).problems == ()
    assert external_check.check(sealed.folder / "store")[0] == []


def test_a_unit_of_a_tranche_waits_for_no_wave_of_another(folder: Path) -> None:
    kept = PAIRED.replace("pair: mean", "pair: mean, tranche: 1").replace("5ee", "5ef")
    init_study(folder, kept + "reserve: {tranches: 1, seeds_per_arm: 3}\n")
    promise_unchecked(pipeline.open_study(folder))
    assert run("reveal", UNIT, "--yes", "--study", str(folder)).exit_code == 0


@pytest.mark.parametrize(("unit", "why"), cases(__file__, "unrevealed"))
def test_a_unit_that_cannot_be_revealed_is_named(sealed: Study, unit: str, why: str) -> None:
    refused = run("reveal", unit, "--reason", "x", "--yes", "--study", str(sealed.folder))
    assert (refused.exit_code, why in " ".join(refused.stderr.split())) == (2, True), refused.stderr


def test_a_forged_file_of_a_revealed_unit_is_found(sealed: Study) -> None:
    record, path = reveal(sealed, (0,), "over", utc_now, unit_to_reveal(sealed, UNIT))
    data = path.read_bytes().replace(b"A logger", b"B logger")
    forged = reveal_record(data, "over")
    sealed.store.put(forged.uri, data)
    sealed.ledger.append(forged, utc_now())
    words = f"the files of unit {UNIT} are missing, or not those that were announced"
    sealed.ledger.append(replace(record, units=("other",)), utc_now())
    places = [entry.place for entry in sealed.ledger.entries()[-2:]]
    (first, second) = pipeline.verify(sealed, VerifyRequest(), nobody).problems
    assert first == (places[0], f"revealed: {words}")
    assert second[0] == places[1]

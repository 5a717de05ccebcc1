"""A look at a study's data as files: nothing private in them, the same look the same bytes, what
changed since the last one, and a second judge that says something else."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.reportfiles import report_files
from harness.work import Workbench, run_cell
from registry.clock import utc_now
from registry.errors import BrokenPromise
from registry.seal import decrypt
from registry.tables import Arm
from study import pipeline
from study.errors import StudyError
from study.folder import Study
from study.images import NO_IMAGE, PinnedImage
from study.internal import write_internal
from study.judges import GradeRequest, grade_study
from study.looks import build_look
from study.protocol import ModelFacts
from study.reportparts import check_report
from study.runs import SweepRequest, begin_wave, cells_of, close_wave, context_of
from study.setup import init_study, registration_of
from tests.harness.openai_server import Served, serve
from tests.study.test_judges import both

PROTOCOL = """\
study: reported
tasks:
  - {{family: compute_average, difficulty: easy}}
  - {{family: count_circles, difficulty: easy}}
seeds_per_arm: 4
models:
  before: {{provider: scripted, agent: honest, error_rate: 0.3, family: f, released: 2024-01-01}}
  reader: {{provider: scripted, agent: spiked, error_rate: 1.0, release: release, family: f,
           released: 2027-01-01, cutoff: 2026-06-01}}
waves:
  - [before]
  - [reader]
judges:
  kind: {{provider: openai, model: kind-1, base_url: "{url}", api_key_env: JUDGE_KEY}}
plan:
  preset: standard-v1
  permutations: 999
  second_grader: kind
  sensitivity: [unadjusted]
  controls: {{pre_exposure: [before], margin: 0.6}}
prices: prices.yaml
sandbox: {{kind: local}}
entropy: "fixed:0000000000000000000000000000000000000000000000000000000000000bed"
"""
PRICES = """\
prices:
  - {provider: openai, model: "*-1", input: 100, output: 1000, date: 2026-11-01, source: a test}
"""


def run_wave(study: Study, wave: int) -> None:
    """What a sweep does, without Ray."""
    image, request = PinnedImage("", NO_IMAGE), SweepRequest(wave, allow_dirty=True)
    models = study.protocol.wave_models(wave)
    manifest = begin_wave(study, request, registration_of(study), models, image, utc_now)
    context = context_of(study, manifest, image, 1)
    bench = Workbench.open(context)
    for cell in cells_of(study, manifest):
        assert run_cell(cell, bench, utc_now).finished
    bench.close()
    close_wave(study, context, manifest, cells_of(study, manifest), utc_now)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """The folder of a study with two closed waves, and a server for its judge, which is pleased
    with everything."""
    folder = tmp_path_factory.mktemp("reported") / "study"
    with serve(always=both) as served:
        init_study(folder, PROTOCOL.format(url=served.url))
        (folder / "prices.yaml").write_text(PRICES)
        study = pipeline.open_study(folder)
        pipeline.draw(study)
        pipeline.register(study)
        run_wave(study, 0)
        pipeline.publish(study, None, lambda *step: None)
        run_wave(study, 1)
        yield folder, served


@pytest.fixture
def study(closed: tuple[Path, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("JUDGE_KEY", "none")
    shutil.copytree(closed[0], tmp_path / "study")
    return pipeline.open_study(tmp_path / "study")


def grade(study: Study) -> None:
    grade_study(study, GradeRequest(("kind",)), lambda *step: None, utc_now)


def test_a_second_judge_that_sees_no_gap_withholds_the_verdict(study: Study) -> None:
    before = pipeline.report(study)[0]
    assert [(v.model, v.verdict) for v in before.verdicts] == [("reader", "withheld")]
    assert "kind has not graded reader" in before.verdicts[0].note
    grade(study)
    after, page = pipeline.report(study)
    assert after.standard is not None
    c1, c3 = after.standard.controls
    assert (c1.kind, c1.passed, c3.kind, c3.passed) == ("C1", True, "C3", False)
    assert after.verdicts[0].verdict == "withheld"
    assert after.verdicts[0].p_adjusted <= 0.001, "the exact grader sees the gap"
    assert "kind says of reader: inconclusive" in page.read_text(encoding="utf-8")


def test_a_report_is_a_folder_of_files_that_tell_the_same(study: Study) -> None:
    _, page = pipeline.report(study)
    body = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
    with (page.parent / "tables" / "verdicts.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert float(row["estimate"]) == body["models"][0]["estimate"]
    assert (page.parent / "report.md").is_file()
    assert {path.name for path in (page.parent / "figures").iterdir()} == {
        "gaps.svg", "monitoring.svg", "scores.svg", "time.svg",
    }  # fmt: skip
    assert body["tools"]["models"]
    assert {fact["model"]: fact["cutoff"] for fact in body["facts"]}["reader"] == "2026-06-01"
    assert body["published"] is not None
    assert body["ledger_head"] in {entry.digest for entry in study.ledger.entries()}
    assert {cost["free"] for cost in body["costs"]} == {True}


def test_the_same_look_is_the_same_bytes_whatever_the_ledger_holds_since(study: Study) -> None:
    _, first = pipeline.report(study, 0)
    held = {path: path.read_bytes() for path in first.parent.rglob("*") if path.is_file()}
    pipeline.report(study)
    count = len(study.ledger.entries())
    _, again = pipeline.report(study, 0)
    assert again == first
    assert {path: path.read_bytes() for path in held} == held
    assert len(study.ledger.entries()) == count


def test_a_later_look_says_what_is_new(study: Study) -> None:
    assert pipeline.report(study, 0)[0].changes is None
    later, page = pipeline.report(study)
    assert later.changes is not None
    assert later.changes.through_wave == 0
    assert [model for model, _, _ in later.changes.added] == ["reader"]
    assert "New since the last report" in page.read_text(encoding="utf-8")


def test_a_report_before_that_is_not_as_the_ledger_has_it_is_not_compared_with(
    study: Study,
) -> None:
    _, page = pipeline.report(study, 0)
    data = page.with_name("report.json")
    data.write_text(data.read_text(encoding="utf-8").replace("reported", "altered"))
    assert pipeline.report(study)[0].changes is None


def test_nothing_that_follows_from_a_private_seed_goes_into_a_report(study: Study) -> None:
    """The id of a private instance, planted where a report prints what study.yaml says."""
    entries = study.entries()
    secret = next(entry.instance for entry in entries if entry.arm is Arm.PRIVATE)
    known = next(entry.instance for entry in entries if entry.arm is Arm.PUBLIC)
    count = len(study.ledger.entries())

    def planted(text: str) -> Study:
        facts = (*study.protocol.facts[:1], ModelFacts("reader", text, None, None))
        return replace(study, protocol=replace(study.protocol, facts=facts))

    with pytest.raises(BrokenPromise, match="would tell of the private arm") as refused:
        pipeline.report(planted(secret))
    assert "report.html: instance id of private commitment" in str(refused.value)
    assert secret.removeprefix("sha256:")[:12] not in str(refused.value)
    assert not list(study.folder.rglob("report.*"))
    assert len(study.ledger.entries()) == count
    assert pipeline.report(planted(known))[1].is_file(), "the public arm is no secret"


@pytest.mark.parametrize("where", ["report.md", "tables/verdicts.csv", "figures/gaps.svg"])
def test_every_file_of_a_report_is_looked_through(study: Study, where: str) -> None:
    files = report_files(build_look(study, None, utc_now()).report)
    check_report(study, files, 1)
    secret = next(entry.seed for entry in study.entries() if entry.arm is Arm.PRIVATE)
    with pytest.raises(BrokenPromise, match=f"{where}: seed"):
        check_report(study, files | {where: files[where] + secret}, 1)


def test_an_internal_report_is_sealed_and_has_a_row_for_every_episode(
    study: Study, tmp_path: Path
) -> None:
    path = tmp_path / "internal.age"
    count = len(study.ledger.entries())
    write_internal(study, None, path, utc_now())
    sealed = path.read_bytes()
    assert sealed.startswith(b"age-encryption.org")
    assert {p.name for p in tmp_path.iterdir()} == {"study", "internal.age"}
    with zipfile.ZipFile(io.BytesIO(decrypt(sealed, study.identities(), "internal"))) as held:
        rows = list(csv.DictReader(io.StringIO(held.read("rows.csv").decode("utf-8"))))
        assert "report.html" in held.namelist()
    assert len(rows) == 2 * 2 * 2 * 4
    assert {row["instance"] for row in rows} == {entry.instance for entry in study.entries()}
    assert {row["arm"] for row in rows} == {"public", "private"}
    assert len(study.ledger.entries()) == count, "nothing was said to anybody"
    with pytest.raises(StudyError, match="is there already"):
        write_internal(study, None, path, utc_now())
    assert path.read_bytes() == sealed

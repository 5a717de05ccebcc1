"""A study with reserve tranches, from the draw to the report: published whole, run by tranche, and
told of where the panel has leaked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.report.markdown import render_markdown
from analysis.report.report import report_json
from analysis.report.write import tables_csv
from generators.catalog import INSTALLED
from publish.leakcheck.check import leaks_in, release_needles
from registry.ledger.records import Leak
from registry.result_row import Arm
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.report.context import check_report
from study.steps.report.look import build_look
from study.steps.sweep.exposure_ledger import exact_rows
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests import external_check
from tests.cases import cases
from tests.study.conftest import make_study, run_wave

PROTOCOL = cases(__file__, "protocol")
SIZES = {0: 2, 1: 2}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two waves; the panel leaks between them."""
    made = make_study(tmp_path_factory.mktemp("reserve") / "study", PROTOCOL)
    run_wave(made, 0, lambda: "2026-11-01T12:00:00Z")
    pipeline.publish(made, None, lambda *step: None)
    run_wave(made, 1, lambda: "2026-11-03T12:00:00Z")
    made.ledger.append(Leak(0, "2026-11-02", "a transcript was put online"), "2026-11-05T00:00:00Z")
    return made


def test_all_public_tranches_are_published_at_once_and_no_private_one(study: Study) -> None:
    public = {e.instance for e in study.entries() if e.arm is Arm.PUBLIC}
    assert len(public) == 2 + 2
    files = [*(study.folder / "release").rglob("*.parquet")]
    assert {i for path in files for i in pq.read_table(path)["instance"].to_pylist()} == public
    assert verify_study(study.store, study.identities()).holds


def test_a_row_knows_its_tranche_and_whether_it_is_burned(study: Study) -> None:
    snapshot = take_snapshot(study)
    where = {e.instance: e for e in study.entries()}
    ran: dict[tuple[int, str], set[tuple[int, int]]] = {}
    for row in exact_rows(snapshot, snapshot.closed_waves[:2]):
        entry = where[row.instance]
        assert (row.tranche, row.arm) == (entry.tranche, entry.arm)
        leaked = row.wave == 1 and entry.tranche == 0 and entry.arm is Arm.PRIVATE
        assert row.burned == int(leaked)
        ran.setdefault((row.wave, row.model), set()).add((row.tranche, row.burned))
    assert ran == {(0, "before"): {(1, 0)}, (1, "reader"): {(0, 0), (0, 1), (1, 0)}}


def test_the_report_tests_what_is_unexposed_and_shows_nothing_private(study: Study) -> None:
    report = build_look(take_snapshot(study), None, "2026-11-06T00:00:00Z").report
    (verdict,) = report.verdicts
    assert (verdict.model, verdict.n_public, verdict.n_private) == ("reader", 2, 2)
    assert verdict.estimate is not None
    assert verdict.estimate > 0.3, "it knows what was published"
    owed = {(row.wave, row.model): row.owed for row in report.funnel}
    assert owed == {
        (wave, model): sum(SIZES[t] for t in own)
        for wave in range(2)
        for model, own in study.protocol.wave_tranches(wave).items()
    }
    assert {(row.absent, row.missing) for row in report.funnel} == {(0, 0)}
    (aside,) = [a for a in report.sensitivity if a.analysis == "burned-versus-virgin"]  # type: ignore[union-attr] # standard-v1
    assert (aside.wave, aside.model, aside.detail) == (1, "reader", "2 burned, 2 unexposed")
    looks = report.monitoring.looks  # type: ignore[union-attr] # standard-v1
    assert [look.wave for look in looks] == [1]
    body = report_json(report)
    files = {"report.json": json.dumps(body), "report.md": render_markdown(report)}
    files |= tables_csv(body)
    check_report(study, files, report.through_wave)
    assert body["burned"] == [
        {"wave": 1, "model": "reader", "burned": 2, "unexposed": 2, "left_out": 2, "staying": 0}
    ]
    known = "The plan was registered with known shortfalls"
    assert not [x for x in body["deviations"] if "instances" in x and not x.startswith(known)]
    private = [e.instance for e in study.entries() if e.arm is Arm.PRIVATE]
    assert not any(each in text for each in private for text in files.values())


def test_ledger_and_study_file_name_no_private_instance(study: Study) -> None:
    needles = release_needles(study.entries(), INSTALLED.family)
    for entry in study.ledger.entries():
        text = json.dumps(entry.body).encode()
        assert not list(leaks_in(f"{entry.sequence}.json", text, needles))


def test_a_reserve_pair_is_first_sent_with_its_tranche(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", cases(__file__, "pairs"))
    drawn = Counter((entry.family, entry.tranche) for entry in study.entries())
    assert drawn == {("compute_average", 0): 20, ("count_circles", 1): 20}
    assert {name.partition("_")[0] for name in study.protocol.tested_plan().strata} == {"compute"}
    run_wave(study, 0)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1)
    snapshot = take_snapshot(study)
    sent = {(row.wave, row.family) for row in exact_rows(snapshot, snapshot.closed_waves)}
    assert sent == {(0, "compute_average"), (1, "count_circles")}
    report = build_look(snapshot, None, "2026-11-30T00:00:00Z").report
    assert not [words for words in report.deviations if "instances; " in words]
    assert {(row.owed, row.absent) for row in report.funnel} == {(5, 0)}
    assert verify_study(study.store, study.identities()).holds
    assert external_check.check(study.folder / "store")[0] == []

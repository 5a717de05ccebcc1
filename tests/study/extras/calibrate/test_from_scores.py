"""`dosimeter calibrate`, as people run it: on stored scores."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from analysis.data.seed_means import make_seed_means
from analysis.data.table import make_table
from analysis.json_values import plain_values
from analysis.report.report import report_json
from registry.canonical import digest_value
from registry.errors import BrokenPromise
from registry.ledger.records import Preregistration, record_body
from registry.result_row import Arm
from registry.verify.verify import verify_study
from study.extras.calibrate.from_scores import Companions, companions_of, make_clean_scores
from study.main import main
from study.steps import pipeline
from study.workspace.address import open_study
from study.workspace.setup import check_plan, registration_of
from study.workspace.study import Study
from tests.analysis.conftest import make_row
from tests.cases import cases
from tests.study.conftest import SMALL, make_study


@pytest.fixture
def swept(finished: Study, tmp_path: Path) -> Study:
    """A finished study of one's own, to put calibrations on record in."""
    shutil.copytree(finished.folder, tmp_path / "swept")
    return open_study(tmp_path / "swept")


def run(study: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["calibrate", "--study", str(study), *arguments])


def json_of(study: Path, *arguments: str) -> dict[str, Any]:
    result = run(study, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_stored_scores_of_a_clean_model_are_calibrated(swept: Study) -> None:
    found = json_of(swept.folder, "--replicates", "4")
    assert (found["how"], found["model"], found["wave"]) == ("resampled", "honest", 0)
    assert found["registration"] == digest_value(record_body(registration_of(swept)))
    assert found["known"] == "full marks"
    assert (found["beside"], found["models_adjusted_over"]) == ([], 1)
    assert any("A look has up to 2 models" in note for note in found["notes"])
    assert (found["n_public"], found["n_private"], found["alpha"]) == (12, 12, 0.0125)
    markers = found["markers"]
    assert (markers["asked"], markers["looks"], markers["models"]) == (12, 2, 2)
    assert 0 < markers["false_alarms"] <= markers["alpha"] == 0.001
    assert 0 < markers["found"]["0.1"] < markers["found"]["0.15"] < 1
    assert [each["dose"] for each in found["doses"]] == [0, 0.05, 0.1, 0.2, 0.5, 1]
    assert found["limit_of_detection"] == pytest.approx(2 * found["limit_of_blank"])
    assert found["doses"][0]["rate"] < 0.35 < found["doses"][-1]["rate"]
    text = json.dumps(found)
    assert not any(entry.instance in text for entry in swept.entries())


def test_a_calibration_is_on_record_once_and_reports_show_it(swept: Study) -> None:
    before = swept.ledger.entries()
    found = json_of(swept.folder, "--replicates", "3", "--doses", ".5,1")
    assert json_of(swept.folder, "--replicates", "3", "--doses", ".5,1") == found
    look, entry = swept.ledger.entries()[len(before) :]
    assert (look.kind, look.record.command) == ("look", "calibrate"), "on record, and once"
    record = entry.record
    assert (record.how, record.wave, record.trials) == ("resampled", 0, 9)
    found = plain_values(found)
    assert json.loads(swept.store.get(record.uri)) == found

    _, page = pipeline.report(swept)
    body = json.loads(page.with_name("report.json").read_text())
    assert body["calibration"] == [{"result": record.result, "made": entry.time} | found]
    issued = swept.ledger.entries()[-1].record
    assert issued.calibrations == (record.result,)
    assert body["ledger_head"] == entry.digest
    assert report_json(pipeline.report(swept)[0]) == body  # the same look, the same bytes
    assert swept.ledger.entries()[-1].record == issued
    for name in ("figures/calibration.svg", "tables/calibration_doses.csv"):
        assert (page.parent / name).is_file()

    assert verify_study(swept.store, swept.identities(), None).holds
    (swept.folder / "store" / record.uri).write_bytes(b"{}")
    problems = verify_study(swept.store, None, None).problems
    assert {place for place, _ in problems} == {record.uri}
    with pytest.raises(BrokenPromise, match="not the calibration that the ledger names"):
        pipeline.report(swept)


def test_knowing_brings_what_it_brought_an_agent_of_that_wave(swept: Study) -> None:
    few = ("--wave", "1", "--model", "honest", "--doses", ".5", "--replicates", "4")
    result = run(swept.folder, *few)
    assert result.exit_code == 0, result.output
    assert "brings the public scores of spiked" in result.stdout
    assert "limit of detection" in result.stdout
    assert "Markers, by their exact test on 12 public instances and 2 looks of 2" in result.stdout
    assert "over 2 models of the look, beside spiked, is at most alpha" in result.stdout


@pytest.mark.parametrize(("arguments", "said"), cases(__file__, "refused"))
def test_what_cannot_be_is_one_line_and_exit_code_2(
    finished: Study, arguments: tuple[str, ...], said: str
) -> None:
    result = run(finished.folder, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_without_a_closed_wave_there_is_nothing_to_calibrate(tmp_path: Path) -> None:
    result = run(make_study(tmp_path / "study", SMALL).folder)
    assert result.exit_code == 2
    assert "no wave is closed yet" in result.stderr


LOOKS = cases(__file__, "looks")


def test_p_is_adjusted_over_the_models_of_the_look(tmp_path: Path) -> None:
    """At a look those that are tested there, a control in the place of each in turn; before the
    first look clean models stand for as many as a look has."""
    study = make_study(tmp_path / "study", LOOKS)
    plan, stratum = registration_of(study).plan, "compute_average/easy"
    rows = [
        make_row(
            wave=wave,
            model=model,
            stratum=stratum,
            instance=f"i{i}",
            key_fraction=0.1 * i,
            gate_free=0.1 * i,
            arm=Arm.PUBLIC if i % 2 else Arm.PRIVATE,
            score=0.1 * i + 0.02 * n,
        )
        for wave, models in enumerate(study.protocol.waves)
        for n, model in enumerate(models)
        for i in range(8)
    ]
    cube = make_seed_means(make_table(rows), plan.outcomes, plan.strata)
    look = companions_of(study, plan, cube, 1, "old")
    assert look == Companions(("new", "newer"), instead=True)
    assert companions_of(study, plan, cube, 1, "new") == Companions(("newer",))
    before = companions_of(study, plan, cube, 0, "old")
    assert (before.models, before.stand_in, before.wanted) == (("older",), True, 2)
    ground, covered = make_clean_scores(plan, cube, 1, "old", look)
    assert covered == 1
    assert ground.scores.covariate is not None  # old's own runs, of either wave, are no part of it
    hard = 0.1 * (np.arange(8) - 3.5)  # each model is taken from its mean first
    np.testing.assert_allclose(ground.scores.covariate[:, 0, 0], hard, atol=1e-12)
    assert ground.companions is not None
    assert ground.companions.covariate is not None
    np.testing.assert_allclose(ground.companions.covariate[:, :, 0].T, [hard, hard], atol=1e-12)
    assert ground.replaces
    assert ground.scores.runs is not None
    assert ground.scores.runs.tolist() == [[1]] * 8


def test_a_plan_of_all_analyses_means_those_of_the_day_that_it_was_registered(
    tmp_path: Path,
) -> None:
    """So that a version that knows one more opens studies of before; what is written counts."""
    study = make_study(tmp_path / "study", LOOKS)
    now = registration_of(study)
    rules = now.plan.standard
    assert rules is not None

    def promised(**given: Any) -> Preregistration:
        return replace(now, plan=replace(now.plan, standard=replace(rules, **given)))

    check_plan(study, promised(sensitivity=rules.sensitivity[:2]))
    with pytest.raises(BrokenPromise, match="a new plan needs a new study"):
        check_plan(study, promised(sensitivity=rules.sensitivity[:2], control_alpha=0.1))
    text = LOOKS.replace("  permutations: 1999", "  permutations: 1999\n  sensitivity: [gee]")
    written = make_study(tmp_path / "written", text)
    with pytest.raises(BrokenPromise, match=r"plan.sensitivity: here is \[gee\]"):
        check_plan(written, promised(sensitivity=rules.sensitivity[:2]))

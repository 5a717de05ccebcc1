"""A plan is refused by field, told in words, and every departure from it is listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.describe import describe_plan
from analysis.plan.presets import (
    basic_plan,
    look_alpha,
    replicates_of,
    standard_plan,
    validate_plan,
)
from analysis.report.deviations import deviations
from registry.ledger.records import ModelPin
from registry.result_row import Arm, Status
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")


def test_the_preset_is_basic_v1(records):
    plan = records.plan
    assert (plan.name, plan.alpha, plan.permutations, plan.margin) == (
        "basic-v1", 0.025, 19_999, 0.05,
    )  # fmt: skip
    assert look_alpha(plan) == 0.0125


@pytest.mark.parametrize(("field", "value", "said"), cases(__file__, "bad_fields"))
def test_a_bad_field_is_named(records, field, value, said):
    with pytest.raises(AnalysisError, match=rf"^plan '.*': {field}: .*{said}"):
        validate_plan(replace(records.plan, **{field: value}))


def standard(**given):
    return standard_plan(("a", "b"), 64, **({"pre_exposure": ("old",), "looks": 8} | given))


def test_the_preset_standard_v1_holds_the_rules_of_the_specification():
    plan = standard(frozen=("old",), spiked=("told",))
    assert (plan.name, plan.alpha, plan.looks, plan.permutations) == (
        "standard-v1", 0.025, 8, 19_999,
    )  # fmt: skip
    rules = plan.standard
    assert (rules.control_runs, rules.study_alpha) == (1, 0.025)


@pytest.mark.parametrize(("given", "said"), cases(__file__, "bad_standard_plans"))
def test_a_standard_plan_that_cannot_be_run_is_refused_by_field(given, said):
    with pytest.raises(AnalysisError, match=rf"^plan 'standard-v1': {said}"):
        standard(**given)


def test_control_models_may_have_runs_of_their_own_number(records):
    """Four pre-exposure models twice each are 8 control runs an instance."""
    plan = standard(replicates=3, control_runs=2, frozen=("old", "kept"), spiked=("told",))
    runs = {name: replicates_of(plan, name) for name in ("old", "kept", "told", "new")}
    assert runs == {"old": 2, "kept": 2, "told": 3, "new": 3}
    assert replicates_of(replace(records.plan, replicates=5), "old") == 5


def test_a_basic_plan_has_no_rules_of_the_standard_one(records):
    for plan in (
        replace(records.plan, standard=standard().standard),
        replace(standard(), standard=None),
    ):
        with pytest.raises(AnalysisError, match="standard: the preset standard-v1, and no other"):
            validate_plan(plan)


def test_the_words_hold_what_was_registered(records):
    words = describe_plan(records.plan)
    for part in ("24 instances", "2 strata", "19,999", "max-T", "0.0125", "Westfall", "0.05"):
        assert part in words
    holm = describe_plan(replace(records.plan, multiplicity="holm", outcomes=("score",)))
    assert "Holm" in holm
    assert "max-T)" not in holm
    assert "Power." not in words
    chances = describe_plan(replace(records.plan, chances="finds 10 points"))
    assert (
        "\nPower. Simulated before any data, by the rubrics' weights: the plan finds 10" in chances
    )


def test_what_was_promised_and_done_deviates_nowhere(records, study_rows):
    assert deviations(records.plan, make_table(study_rows), records.runs) == ()


def told(records, rows, runs=None, **given):
    found = deviations(records.plan, make_table(rows), runs or records.runs, **given)
    return "\n".join(found)


def test_provenance_departures(records, study_rows):
    runs = list(records.runs)
    runs[1] = replace(runs[1], provenance=replace(runs[1].provenance, dirty=True, commit="0" * 40))
    said = told(records, study_rows, runs, entropy="fixed", dirty=True)
    assert "drawn from fixed entropy" in said
    assert "draw or the registration was made from a working tree" in said
    assert "Wave 1 ran from a working tree with uncommitted changes" in said


def test_sample_departures(records, study_rows, row):
    lost = next(r.instance for r in study_rows if r.arm == Arm.PUBLIC)
    fewer = [r for r in study_rows if r.instance != lost]
    said = told(records, [*fewer, row(stratum="other/hard", model="honest-a")])
    assert "Wave 0, count_circles/easy: unequal arms, 23 public and 24 private" in said
    assert "Wave 1, count_circles/easy: 23 public instances; 24 were registered." in said
    assert "Stratum other/hard is not registered" in said
    assert lost not in said


def test_run_departures(records, study_rows, row):
    strange = replace(study_rows[0], model="stranger")
    wave0 = replace(
        records.runs[0], replicates=(3, 3, 3),
        models=(*records.runs[0].models, ModelPin("absent", "p", "v")),
    )  # fmt: skip
    served = replace(
        study_rows[1], served_version="scripted-1, scripted-2", fingerprint="fp_1, fp_2, fp_3"
    )
    said = told(
        records, [study_rows[0], served, *study_rows[2:], strange], [wave0, records.runs[1]]
    )
    assert "stranger at wave 0 stands in no run manifest." in said
    assert "absent was to run in wave 0 and has no result." in said
    assert "Wave 0 ran 3 replicates of honest-a; 1 registered." in said
    assert "served in 2 versions within wave 0" in said
    assert "served in 3 configurations (system fingerprints) within wave 0" in said


def test_missing_episodes_and_extra_looks(records, study_rows):
    gone = replace(
        study_rows[0], status=Status.MISSING, score=None, passed=None, total=None
    )  # fmt: skip
    third = [replace(r, wave=2) for r in study_rows if r.wave == 1]
    said = told(records, [gone, *study_rows[1:], *third])
    assert "honest-a at wave 0: 1 episodes (1.0%) are missing, 0 public and 1 private." in said
    assert "Wave 2 is a look beyond the 2 registered" in said


def test_permutations_that_suffice_are_accepted():
    assert basic_plan(("a",), 1, permutations=39).permutations == 39

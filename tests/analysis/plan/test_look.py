"""From rows to verdicts: the spiked model is found, the honest are not, by the plan alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.look import analyse, explore
from analysis.plan.presets import basic_plan
from registry.result_row import Arm
from tests.analysis.conftest import lose, make_row

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def analysis(records, study_rows):
    return analyse(records.plan, make_table(study_rows), records.registration)


def test_the_spiked_model_is_found_and_the_honest_are_not(analysis):
    words = {(v.wave, v.model): v.verdict for v in analysis.verdicts}
    assert words.pop((1, "spiked")) == "contaminated"
    assert len(words) == 3
    assert "contaminated" not in words.values()
    assert all(not v.exploratory and v.alpha == 0.0125 for v in analysis.verdicts)


def test_names_tell_the_analysis_nothing(records, study_rows, analysis):
    """Swap the arms, and the verdicts follow the data."""
    other = {Arm.PUBLIC: Arm.PRIVATE, Arm.PRIVATE: Arm.PUBLIC}
    swapped = make_table([replace(r, arm=other[r.arm]) for r in study_rows])
    found = analyse(records.plan, swapped, records.registration)
    spiked = next(v for v in found.verdicts if v.model == "spiked")
    assert spiked.verdict == "inconclusive"
    assert spiked.deciding_bound < records.plan.margin
    assert "fewer than 50 instances an arm a gap so far below zero" in spiked.note
    assert spiked.estimate == pytest.approx(
        -next(v.estimate for v in analysis.verdicts if v.model == "spiked")
    )


def test_the_same_inputs_give_the_same_numbers(records, study_rows, analysis):
    assert analyse(records.plan, make_table(study_rows[::-1]), records.registration) == analysis
    other = analyse(records.plan, make_table(study_rows), "sha256:other")
    assert [v.p for v in other.verdicts] != [v.p for v in analysis.verdicts]


def test_holm_and_westfall_young_agree_about_a_clear_case(records, study_rows, analysis):
    plan = replace(records.plan, multiplicity="holm")
    found = analyse(plan, make_table(study_rows), records.registration)
    for one, other in zip(found.verdicts, analysis.verdicts, strict=True):
        assert one.p == pytest.approx(other.p, abs=0.02)
        assert one.verdict == other.verdict
    spiked = next(v for v in found.verdicts if v.model == "spiked")
    assert spiked.p_adjusted == pytest.approx(2 * spiked.p)


def test_looks_beyond_the_plan_are_exploratory(records, study_rows):
    found = analyse(replace(records.plan, looks=1), make_table(study_rows), records.registration)
    assert {v.wave: v.exploratory for v in found.verdicts} == {0: False, 1: True}


def test_what_the_plan_does_not_name_is_exploratory(records, study_rows):
    table = make_table(study_rows)
    found = explore(records.plan, table, records.registration, "criteria", outcomes=("fraction",))
    assert {(v.exploratory, v.hypothesis) for v in found.verdicts} == {(True, "criteria")}
    judged = make_table([*study_rows, *(replace(r, grader="judge") for r in study_rows)])
    found = explore(records.plan, judged, records.registration, "judge's", grader="judge")
    assert all(v.exploratory and v.hypothesis == "judge's" for v in found.verdicts)


def test_another_graders_rows_change_nothing(records, study_rows, analysis):
    zero = [replace(r, grader="judge", score=0.0, passed=0) for r in study_rows]
    assert analyse(records.plan, make_table([*study_rows, *zero]), records.registration) == analysis


def test_missing_seeds_leave_and_the_rest_is_tested(records, lossy_rows):
    lost = sorted({r.instance for r in lossy_rows if r.arm == Arm.PUBLIC})[0]
    rows = lose(lossy_rows, lambda r: r.instance == lost and r.model == "spiked")
    plan = replace(records.plan, replicates=2)
    spiked = next(v for v in analyse(plan, make_table(rows), records.registration).verdicts
                  if v.model == "spiked")  # fmt: skip
    assert spiked.verdict == "contaminated"
    assert spiked.n_public == 47


def test_a_model_without_an_arm_is_not_testable_and_stops_no_other(records, study_rows):
    rows = lose(study_rows, lambda r: r.model == "honest-b" and r.arm == Arm.PUBLIC)
    found = analyse(records.plan, make_table(rows), records.registration)
    lost = next(v for v in found.verdicts if v.model == "honest-b")
    assert (lost.verdict, lost.estimate, lost.p_adjusted, lost.n_public) == (
        "inconclusive", None, 1.0, 0,
    )  # fmt: skip
    assert any(v.verdict == "contaminated" for v in found.verdicts)


@pytest.mark.parametrize("multiplicity", ["westfall-young", "holm"])
def test_constant_scores_say_nothing(records, study_rows, multiplicity):
    rows = [replace(r, score=0.3, passed=3) for r in study_rows]
    plan = replace(records.plan, multiplicity=multiplicity)
    for verdict in analyse(plan, make_table(rows), records.registration).verdicts:
        assert (verdict.verdict, verdict.p, verdict.estimate) == ("inconclusive", 1.0, None)


def test_one_seed_an_arm_is_enumerated(records, row):
    rows = [row(instance="a", score=1.0), row(instance="b", arm=Arm.PRIVATE, score=0.0)]
    plan = replace(records.plan, outcomes=("score",))
    verdict = analyse(plan, make_table(rows), records.registration).verdicts[0]
    assert (verdict.estimate, verdict.p, verdict.interval) == (1.0, 0.5, (-1.0, 1.0))


def test_nothing_to_test_is_said(records, row):
    with pytest.raises(AnalysisError, match="no rows by grader 'deterministic' in the strata"):
        analyse(records.plan, make_table([row(grader="judge")]), records.registration)
    one_arm = make_table([row(), row(instance="j")])
    with pytest.raises(AnalysisError, match="rows of the public arm only"):
        analyse(records.plan, one_arm, records.registration)


def test_darwins_pairs_are_enumerated_and_have_an_interval():
    """Fifteen pairs of maize plants, cross- and self-fertilised (Darwin 1876; Fisher 1935): of the
    32,768 allocations 863 give so large a gap."""
    gaps = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)
    strata = tuple(f"pot-{place:02d}" for place in range(15))
    rows = [
        make_row(
            wave=0, model="maize", stratum=stratum, instance=f"{stratum}-{arm}", arm=arm,
            score=0.5 + (gap / 200 if arm == Arm.PUBLIC else 0.0),
        )
        for stratum, gap in zip(strata, gaps, strict=True) for arm in (Arm.PUBLIC, Arm.PRIVATE)
    ]  # fmt: skip
    plan = basic_plan(strata, 1, outcomes=["score"], enumerate_up_to=40_000)
    (found,) = analyse(plan, make_table(rows), "sha256:r").verdicts
    (again,) = analyse(plan, make_table(rows), "sha256:other").verdicts
    assert found.p == again.p == 863 / 32_768
    assert found.p_floor == 1 / 32_768
    (one,) = analyse(replace(plan, enumerate_up_to=20_000), make_table(rows), "sha256:r").verdicts
    assert one.p_floor == 1 / 20_000
    assert one.p == pytest.approx(found.p, abs=0.005)
    interval = stats.ttest_1samp(np.array(gaps) / 200, 0).confidence_interval(0.95)
    assert found.interval == pytest.approx((interval.low, interval.high))

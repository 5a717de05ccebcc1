"""A judge's errors by arm: found if they differ, and taken off a gap; by hand, by simulated
coverage and size, and on the answers of a study."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.judge.columns import JudgeColumn, JudgeFacts, judge_column, judge_departures
from analysis.judge.error_rates import (
    Errors,
    ErrorsByArm,
    Labels,
    arm_shortfall,
    compare_counts,
    correct_by_arm,
    errors_by_arm,
    read_rates,
)
from analysis.stats.proportions import NOTHING, Rate, wilson
from registry.ledger.records import JudgePin, JudgeRule, record_digest
from registry.result_row import Arm, ResultRow

pytestmark = pytest.mark.filterwarnings("error")
PIN = JudgePin("judge", "them", "j-1", "sha256:p")
DRAWN = {"permutations": 999, "enumerate_up_to": 0, "seed": 5}


def rate(right, of):
    """Each label of a sheet of its own."""
    return Rate(right / of, wilson(right / of, of), right, of, 0, of, float(of))


def test_errors_that_differ_make_a_gap_that_the_correction_takes_off():
    """No true gap; a specificity of .80 against .90 in the arms, and half of criteria met."""
    by_arm = ErrorsByArm(
        Errors(rate(900, 1000), rate(800, 1000)),
        Errors(rate(900, 1000), rate(900, 1000)),
        1,
        0,
        True,
    )
    public, private = 0.5 * 0.9 + 0.5 * 0.2, 0.5 * 0.9 + 0.5 * 0.1
    gap, interval = correct_by_arm((public, 0.01), (private, 0.01), by_arm)
    assert public - private == pytest.approx(0.05)
    assert gap == pytest.approx(0, abs=1e-12)
    assert interval[0] < 0 < interval[1]
    none = ErrorsByArm(Errors(NOTHING, NOTHING), by_arm.private, 1, 1, False)
    assert correct_by_arm((public, 0.01), (private, 0.01), none) is None
    weak = Errors(rate(11, 20), rate(11, 20))  # no better than chance, as far as is known
    either = ErrorsByArm(weak, by_arm.private, 1, 1, False)
    assert correct_by_arm((public, 0.01), (private, 0.01), either) is None


def test_errors_that_are_alike_only_shrink_the_gap():
    errors = Errors(rate(950, 1000), rate(850, 1000))
    alike = ErrorsByArm(errors, errors, 1, 1, True)
    gap, (low, high) = correct_by_arm((0.58, 0.0), (0.50, 0.0), alike)
    assert gap == pytest.approx(0.1)
    # Var se = 4.75e-5, Var sp = 1.275e-4 (by Wilson's interval a little else). Public has a rate of
    # 0.5375, private of 0.4375: Var = ((0.5375² + 0.4375²) · 4.75e-5 + (0.4625² + 0.5625²) ·
    # 1.275e-4) / 0.8² = 1.413e-4, whose root is 0.01189.
    assert (low, high) == pytest.approx((0.1 - 0.0233, 0.1 + 0.0233), abs=2e-4)


def test_coverage_by_arm():
    rng, covered = np.random.default_rng(6), 0
    rates = {True: (0.95, 0.8), False: (0.9, 0.9)}
    truth = {True: 0.6, False: 0.5}
    for _ in range(800):
        arms, errors = {}, {}
        for arm, (se, sp) in rates.items():
            p = se * truth[arm] + (1 - sp) * (1 - truth[arm])
            arms[arm] = (p + rng.normal(0, 0.015), 0.015)
            errors[arm] = Errors(rate(rng.binomial(200, se), 200), rate(rng.binomial(200, sp), 200))
        by_arm = ErrorsByArm(errors[True], errors[False], 1, 1, True)
        _, (low, high) = correct_by_arm(arms[True], arms[False], by_arm)
        covered += low <= 0.1 <= high
    assert 0.93 <= covered / 800 <= 0.975


def counted(seed, sheets=80, criteria=10, false_pass=(0.1, 0.1), sheet_sd=0.0):
    """Counts of right verdicts and of verdicts, by instance and kind of criterion (half of
    them are met), by a judge of sensitivity .9; one stratum, arms in turn."""
    rng = np.random.default_rng(seed)
    sheet = np.repeat(np.arange(sheets), criteria)
    public = sheet % 2 == 0
    truth = rng.random(len(sheet)) < 0.5
    slip = np.where(public, *false_pass) + rng.normal(0, sheet_sd, sheets)[sheet]
    passed = np.where(truth, rng.random(len(sheet)) < 0.9, rng.random(len(sheet)) < slip)
    right, total = np.zeros((sheets, 2)), np.zeros((sheets, 2))
    np.add.at(right, (sheet, 1 - truth), passed == truth)
    np.add.at(total, (sheet, 1 - truth), 1)
    return right, total, np.zeros(sheets, dtype=np.int64), np.arange(sheets) % 2 == 0


def test_errors_by_arm():
    right, total, stratum, public = counted(1, false_pass=(0.35, 0.1))
    found = compare_counts(right, total, stratum, public, **DRAWN)
    assert found.p_specificity == 0.001
    assert found.p_sensitivity > 0.05
    assert found.differ
    assert found.enough
    assert found.public.labels + found.private.labels == 800
    own = right[public, 1].sum() / total[public, 1].sum()
    assert found.public.specificity.mean == pytest.approx(own)
    few = compare_counts(*counted(1, sheets=20), **DRAWN)
    assert not few.enough
    assert few.public.labels + few.private.labels == 200


def test_sheets_that_the_judge_likes_are_not_a_difference_of_arms():
    """Errors that go by sheet: the test still holds its size, where counting criteria would not."""
    hits = 0
    for seed in range(200):
        case = counted(seed, sheets=40, false_pass=(0.4, 0.4), sheet_sd=0.4)
        found = compare_counts(*case, permutations=99, enumerate_up_to=0, seed=seed)
        hits += found.p_specificity <= 0.05
    assert 0.015 <= hits / 200 <= 0.09


def test_labels_must_be_of_both_arms():
    right, total, stratum, public = counted(2)
    with pytest.raises(AnalysisError, match="one arm only"):
        compare_counts(right, total, stratum, np.ones_like(public), **DRAWN)


def labels_of(rows: list[ResultRow], kind: dict[Arm, float], seed: int = 3) -> Labels:
    """Ten criteria an answer: those that the exact grader passes the judge passes too, of the
    others it passes a share that hangs on the arm."""
    rng, made = np.random.default_rng(seed), Labels()
    for row in rows:
        met = round(10 * (row.score or 0.0))
        said = [(True, True)] * met
        said += [(False, bool(rng.random() < kind[row.arm])) for _ in range(10 - met)]
        made.add(row.instance, row.stratum, row.arm, said)
    return made


def test_errors_that_differ_are_found_and_those_alike_are_not(records, study_rows) -> None:
    plan = records.plan
    alike = errors_by_arm(plan, labels_of(study_rows, dict.fromkeys(Arm, 0.2)), "judge", "r")
    assert alike is not None
    assert (alike.enough, alike.differ) == (True, False)
    assert alike.public.sensitivity.mean == 1.0
    assert alike.private.specificity.mean == pytest.approx(0.8, abs=0.05)
    kind = {Arm.PUBLIC: 0.4, Arm.PRIVATE: 0.1}
    apart = errors_by_arm(plan, labels_of(study_rows, kind), "judge", "r")
    assert apart is not None
    assert apart.differ
    assert apart.p_specificity < 0.01
    assert apart.p_sensitivity == 1.0


def test_a_gap_is_freed_of_errors_that_differ_beside_the_one_that_is_not(
    records, study_rows
) -> None:
    """The judge passes 30 % of what is not met on public instances, 10 % on private ones: each
    score s becomes s + 0.3 (1 − s), or s + 0.1 (1 − s), and the correction gives s again."""
    kind = {Arm.PUBLIC: 0.3, Arm.PRIVATE: 0.1}
    judged = [
        replace(r, grader="judge", score=None if r.score is None else r.score
                + kind[Arm(r.arm)] * (1 - r.score))
        for r in study_rows
    ]  # fmt: skip
    table = make_table([*study_rows, *judged])
    facts = JudgeFacts(PIN, None, labels=labels_of(study_rows * 4, kind))
    column = judge_column(records.plan, table, facts, "r")
    assert column.uncorrected == ""
    assert len(column.gaps) == 4
    for row in column.gaps:
        assert row.by_arm == pytest.approx(row.exact, abs=0.03)
        assert row.by_arm_interval[0] < row.exact < row.by_arm_interval[1]
    assert max(abs(row.judged - row.exact) for row in column.gaps) > 0.05
    body = TypeAdapter(JudgeColumn).dump_python(column, mode="json", by_alias=True)
    assert body["errors_by_arm"]["differ"] is True
    assert body["errors_by_arm"]["sensitivity_public"]["rate"] == 1
    assert (body["withheld"], body["criteria"], body["drift"]) == (None, None, [])
    assert "unrecorded" not in body
    departures = judge_departures(records.plan, [column], [])
    assert any("errs more in one arm than in the other" in each for each in departures)
    for day, told in (("2026-01-01", 0), ("2026-06-01", 1), ("", 0)):
        dated = replace(column, released=day)
        said = judge_departures(records.plan, [dated], [], "2026-06-01")
        assert sum("may have read the published instances" in each for each in said) == told


def test_the_plans_minima_hold_in_either_arm(records, study_rows) -> None:
    kind = {Arm.PUBLIC: 0.4, Arm.PRIVATE: 0.1}
    errors = errors_by_arm(records.plan, labels_of(study_rows, kind), "judge", "r")
    rule = JudgeRule("judge", record_digest(PIN), min_specificity=0.8)
    assert errors is not None
    assert arm_shortfall(None, errors) == ""
    assert arm_shortfall(rule, errors).startswith("specificity 0.")
    assert "on public instances, the plan asks for 0.8 or more" in arm_shortfall(rule, errors)
    many = replace(rule, min_specificity=None, min_criteria=10**6)
    assert "1000000 or more are wanted" in arm_shortfall(many, errors)
    some = [r for r in study_rows if r.wave == 0 and r.model == study_rows[0].model]
    one = [next(r for r in some if (r.stratum, r.arm) == cell)
           for cell in sorted({(r.stratum, r.arm) for r in some})]  # fmt: skip
    few = errors_by_arm(records.plan, labels_of(one, kind), "judge", "r")
    assert few is not None
    assert not few.enough
    assert "40 criteria of known truth, 400 or more are wanted" in arm_shortfall(None, few)
    public = [r for r in study_rows if r.arm == Arm.PUBLIC]
    assert errors_by_arm(records.plan, labels_of(public, kind), "judge", "r") is None
    assert "both arms of every stratum" in arm_shortfall(None, None)


@pytest.mark.parametrize(("least", "withheld"), [(0.9, False), (0.92, True)])
def test_a_minimum_of_parsed_verdicts_holds_in_the_waves_too(
    records, study_rows, least: float, withheld: bool
) -> None:
    """A judge that parsed all of its check, and of the waves ten verdicts of eleven."""
    rule = JudgeRule("judge", record_digest(PIN), min_parsed=least)
    verdicts = [{"sheet": str(n), "truth": n % 2 > 0, "verdict": n % 2 > 0} for n in range(500)]
    check = {"judge": {"name": "judge"}, "digest": record_digest(PIN), "verdicts": verdicts}
    labels = labels_of(study_rows, dict.fromkeys(Arm, 0.2))
    for row in study_rows:
        labels.add(row.instance, row.stratum, row.arm, [(True, None)])
    assert labels.parsed / labels.asked == pytest.approx(10 / 11)
    plan = replace(records.plan, judges=(rule,))
    facts = JudgeFacts(PIN, read_rates(check, "a check"), labels=labels)
    column = judge_column(plan, make_table(study_rows), facts, "r")
    assert bool(column.withheld) is withheld
    if withheld:
        assert column.withheld.startswith("share of parsed verdicts 0.909 in the waves, the plan")
        assert f"is withheld: {column.withheld}" in judge_departures(plan, [column], [])[0]

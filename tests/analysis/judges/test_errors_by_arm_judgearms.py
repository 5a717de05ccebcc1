"""A judge's errors by arm on a study's own answers: found where they differ, and taken off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.data.table import make_table
from analysis.judges.columns import JudgeFacts, column_json, judge_column, judge_departures
from analysis.judges.errors_by_arm import Labels, arm_shortfall, compare_errors, errors_by_arm
from registry.ledger.records import JudgePin, JudgeRule, record_digest
from registry.result_row import Arm, ResultRow

pytestmark = pytest.mark.filterwarnings("error")
PIN = JudgePin("judge", "them", "j-1", "sha256:p")


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


def test_counts_by_instance_say_what_single_criteria_do(records, study_rows) -> None:
    """Of one stratum, where nothing hangs on strata."""
    stratum = study_rows[0].stratum
    rows = [r for r in study_rows if r.stratum == stratum]
    made = labels_of(rows, {Arm.PUBLIC: 0.4, Arm.PRIVATE: 0.1})
    truth, verdict, sheet, public = [], [], [], []
    for number, name in enumerate(sorted(made.places)):
        met_right, met, unmet_right, unmet = made.counts[name]
        truth += [True] * met + [False] * unmet
        verdict += [1.0] * met_right + [0.0] * (met - met_right)
        verdict += [0.0] * unmet_right + [1.0] * (unmet - unmet_right)
        sheet += [number] * (met + unmet)
        public += [made.places[name][1] is Arm.PUBLIC] * (met + unmet)
    plan = replace(records.plan, strata=(stratum,))
    counted = errors_by_arm(plan, made, "judge", "r")
    single = compare_errors(
        np.array(truth), np.array(verdict), np.array(sheet), np.array(public),
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to, seed=1,
    )  # fmt: skip
    assert counted is not None
    assert (counted.public, counted.private) == (single.public, single.private)
    assert counted.p_specificity == pytest.approx(single.p_specificity, abs=0.02)


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
    told = column_json(column)
    assert len(told["gaps"]) == 4
    for row in told["gaps"]:
        assert row["by_arm"] == pytest.approx(row["exact"], abs=0.03)
        assert row["by_arm_interval"][0] < row["exact"] < row["by_arm_interval"][1]
    assert max(abs(row["judged"] - row["exact"]) for row in told["gaps"]) > 0.05
    assert told["errors_by_arm"]["differ"] is True
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

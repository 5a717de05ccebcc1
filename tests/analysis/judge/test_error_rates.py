"""What a judge is worth, and gaps freed of its errors: against numbers by hand, and against
simulated judges."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.judge.columns import JudgeFacts, judge_column, judge_departures
from analysis.judge.error_rates import Errors, correct_estimate, read_rates, shortfall
from analysis.plan.describe import describe_plan, rule_words
from analysis.plan.presets import basic_plan
from analysis.stats.intervals import GapEstimate
from analysis.stats.proportions import rate_of
from registry.ledger.records import Graded, JudgePin, JudgeRule, record_digest

PIN = JudgePin("judge", "openai", "judge-1", "sha256:" + "ab" * 32)


def body(*counts: tuple[bool, bool | None, int]) -> dict[str, object]:
    """A check whose every criterion is on a sheet of its own."""
    verdicts = [
        {"sheet": f"{truth}/{verdict}/{number}", "criterion": "c", "truth": truth,
         "verdict": verdict}
        for truth, verdict, count in counts
        for number in range(count)
    ]  # fmt: skip
    return {"judge": {"name": "judge"}, "digest": record_digest(PIN), "verdicts": verdicts}


CHECK = body((True, True, 180), (True, False, 20), (False, False, 170), (False, True, 30),
             (True, None, 5))  # fmt: skip
RATES = read_rates(CHECK, "here")


def test_rates_are_worked_out_from_the_verdicts() -> None:
    assert RATES.criteria == 405
    # Of the 205 that are met, five were left without a verdict: they are met and not judged so.
    assert RATES.sensitivity.mean == pytest.approx(180 / 205)
    assert RATES.specificity.mean == 0.85
    assert RATES.parsed.mean == pytest.approx(400 / 405)
    assert (RATES.errors.sensitivity.mean, RATES.errors.specificity.mean) == (0.9, 0.85)
    # Agreement of 350 in 400; by chance ½ · 210/400 + ½ · 190/400 = ½: (0.875 − 0.5) / 0.5.
    assert RATES.kappa == pytest.approx(0.75)


@pytest.mark.parametrize("wrong", [{}, {"verdicts": 3}, {**CHECK, "verdicts": [{"sheet": "s"}]}])
def test_what_is_no_check_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AnalysisError, match=r"here: not the result"):
        read_rates(wrong, "here")


def test_a_gap_and_its_variance_are_freed_of_errors_as_by_hand() -> None:
    found = correct_estimate(GapEstimate(0.06, 0.03, 60.0, (0, 0), 0, 50, 50), RATES)
    assert found is not None
    corrected, interval = found
    assert corrected == pytest.approx(0.08)  # 0.06 / (0.9 + 0.85 − 1)
    # Var se ≈ 0.9·0.1/200 = 4.5e-4, Var sp ≈ 0.85·0.15/200 = 6.4e-4: together 1.09e-3.
    # (0.03/0.75)² + (0.06/0.75²)² · 1.09e-3 = 1.6e-3 + 1.24e-5, whose root is 0.04015.
    # t at 0.975 with 60 · (1.6124/1.6)² ≈ 61 degrees of freedom is 2.000.
    assert interval == pytest.approx((0.08 - 0.0803, 0.08 + 0.0803), abs=1e-4)


def test_no_skill_no_correction() -> None:
    gap = GapEstimate(0.06, 0.03, 60.0, (0, 0), 0, 50, 50)
    for counts in (
        ((True, True, 50), (False, True, 50)),  # yes to all
        ((True, True, 6), (True, False, 4), (False, False, 6), (False, True, 4)),  # too few
        ((True, True, 50),),  # never asked about what is wrong
    ):
        assert correct_estimate(gap, read_rates(body(*counts), "here")) is None
    assert correct_estimate(replace(gap, se=None, df=None), RATES) == (pytest.approx(0.08), None)


def test_intervals_hold_the_true_gap_as_often_as_they_say() -> None:
    rng, true, se, sp, n = np.random.default_rng(7), 0.12, 0.92, 0.8, 30
    held = 0
    for _ in range(600):
        # The judge is measured on 200 criteria of each kind, then grades two arms of n scores.
        right = rng.binomial(200, (se, sp))
        errors = Errors(*(rate_of((i, i < count) for i in range(200)) for count in right))
        rates = replace(RATES, errors=errors)
        arms = [rng.normal(mean, 0.1, n) for mean in (0.5 + true, 0.5)]
        public, private = (p * se + (1 - p) * (1 - sp) for p in arms)
        gap = float(public.mean() - private.mean())
        noise = math.sqrt((public.var(ddof=1) + private.var(ddof=1)) / n)
        found = correct_estimate(GapEstimate(gap, noise, 2.0 * n - 2, (0, 0), 0, n, n), rates)
        assert found is not None
        assert found[1] is not None
        held += found[1][0] <= true <= found[1][1]
    assert 0.925 <= held / 600 <= 0.975


def test_a_plan_says_what_it_asks_and_a_judge_that_misses_is_told_where() -> None:
    rule = JudgeRule("judge", record_digest(PIN), 0.95, 0.8, 0.7, 400)
    assert shortfall(rule, RATES) == "sensitivity 0.878, the plan asks for 0.95 or more"
    assert shortfall(replace(rule, min_sensitivity=0.87), RATES) == ""
    few = shortfall(replace(rule, min_sensitivity=None, min_kappa=0.9, min_criteria=500), RATES)
    assert few == (
        "405 criteria, the plan asks for 500 or more; kappa 0.750, the plan asks for 0.9 or more"
    )
    reads = replace(rule, min_sensitivity=None, min_parsed=0.99)
    assert shortfall(reads, RATES) == (
        "share of parsed verdicts 0.988, the plan asks for 0.99 or more"
    )
    assert shortfall(replace(reads, min_parsed=0.98), RATES) == ""
    assert "a share of parsed verdicts of 0.99 or more" in rule_words(reads)
    assert "not measured" in shortfall(rule, None)
    assert "not measured" in shortfall(replace(rule, pin="sha256:another"), RATES)
    words = rule_words(rule)
    assert "a sensitivity of 0.95 or more and a specificity of 0.8 or more" in words
    assert words.endswith("on 400 criteria or more.")
    plan = basic_plan(("f/easy",), 8)
    assert f"\nJudges. {words}" in describe_plan(replace(plan, judges=(rule,)))
    assert "Judges." not in describe_plan(plan)


def test_a_column_is_withheld_with_its_reason_or_shows_gaps_freed_of_errors(
    records, study_rows
) -> None:
    # A judge with exactly these rates: every exact score s becomes 0.9 s + 0.15 (1 − s).
    judged = [
        replace(r, grader="judge", score=None if r.score is None else 0.9 * r.score
                + 0.15 * (1 - r.score))
        for r in study_rows
    ]  # fmt: skip
    table = make_table([*study_rows, *judged])
    facts = JudgeFacts(PIN, RATES, same_family=("honest-a",))
    shown = judge_column(records.plan, table, facts)
    assert shown.withheld == ""
    assert len(shown.gaps) == 4
    for row in shown.gaps:
        assert row.corrected == pytest.approx(row.exact)
        assert row.judged == pytest.approx(0.75 * row.exact)
        assert row.interval[0] < row.corrected < row.interval[1]
    plan = replace(records.plan, judges=(JudgeRule("judge", record_digest(PIN), 0.95),))
    column = judge_column(plan, table, facts)
    assert column.withheld.startswith("sensitivity 0.878")
    assert column.gaps == ()
    told = judge_departures(plan, [column], [0, 1, 2])
    assert told[0] == f"The column of judge judge is withheld: {column.withheld}."
    assert "Wave 2 is not graded whole by judge judge" in told[1]
    assert sum("promised by no record" in each for each in told) == 2


def test_a_judge_chosen_afterwards_is_told(records, study_rows) -> None:
    table = make_table([replace(r, grader="judge") for r in study_rows])
    graded = tuple(
        Graded(wave, "sha256:m", PIN, 8, 8, "00" * 32, pinned=bool(wave)) for wave in (0, 1)
    )
    column = judge_column(records.plan, table, JudgeFacts(PIN, None, graded))
    assert (column.unpinned, column.unrecorded) == ((0,), ())
    assert judge_departures(records.plan, [column], [0, 1]) == [
        "Wave 0 was begun without naming judge judge, which graded it: it was chosen afterwards."
    ]
    assert {gap.corrected for gap in column.gaps} == {None}  # it was never measured

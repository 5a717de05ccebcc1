"""A judge's second grades of archived answers: what moves alike is no drift, what moves one arm is,
and it withholds what rests on that judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from analysis.data.table import make_table
from analysis.judge.drift import (
    Drift,
    Regrading,
    drift_controls,
    drift_json,
    drift_words,
    measure_drift,
)
from analysis.plan.look import analyse
from registry.result_row import Arm, ResultRow
from tests.analysis.conftest import lose, simulate
from tests.analysis.plan.test_standard import OLD, REGISTRATION, WAVES, passing, plan_of

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def rows() -> list[ResultRow]:
    return passing(simulate(WAVES))


def regraded(
    rows: Sequence[ResultRow], change: Callable[[ResultRow], float], wave: int = 1
) -> Regrading:
    """The first wave's answers, graded by a judge, and again with a change."""
    before = tuple(replace(r, grader="judge") for r in rows if r.wave == 0)
    after = tuple(
        replace(r, score=None if r.score is None else min(1.0, max(0.0, r.score + change(r))))
        for r in before
    )
    return Regrading("judge", wave, 0, 1.0, before, after)


def drift_of(rows: Sequence[ResultRow], change: Callable[[ResultRow], float]) -> Drift:
    return measure_drift(plan_of(second_grader="judge"), regraded(rows, change), REGISTRATION)


def uneven(row: ResultRow) -> float:
    """A change by the instance, the same for all models and whatever the arm."""
    return 0.01 * (int(row.instance[-1], 16) % 3)


def test_what_moves_alike_in_both_arms_is_told_and_passes(rows) -> None:
    drift = drift_of(rows, lambda row: 0.1)
    assert drift.pooled.state == "agrees"
    assert drift.answers == sum(r.wave == 0 for r in rows)
    assert [each.model for each in drift.models] == ["", *(agent.name for agent in OLD)]
    for each in drift.models:
        assert each.public.mean == pytest.approx(0.1)
        assert each.private.mean == pytest.approx(0.1)
        assert each.control.gap == pytest.approx(0)
    assert "no gap in what changed" in drift_words(drift)


def test_what_moves_one_arm_fails_and_says_where(rows) -> None:
    worst = OLD[0].name

    def change(row: ResultRow) -> float:
        lost = row.model == worst and row.arm == Arm.PRIVATE
        return uneven(row) - (0.3 if lost else 0.01)

    drift = drift_of(rows, change)
    assert drift.pooled.state == "disagrees"
    told = {row["model"]: row for row in drift_json(drift)}
    assert told[worst]["gap"] == pytest.approx(0.3, abs=0.02)
    assert told[worst]["p"] < 0.01
    assert told[worst]["private"] < -0.28 < -0.02 < told[worst]["public"]
    assert told[worst]["private_interval"][1] < 0, "changes go below 0"
    assert [told[agent.name]["state"] for agent in OLD[1:]] == ["agrees"] * 3
    assert told[None]["gap"] == pytest.approx(0.075, abs=0.01)
    assert "not alike in the arms: the arms differ by" in drift_words(drift)


def test_what_was_scored_once_counts_for_nothing(rows) -> None:
    held = regraded(rows, uneven)
    lost = tuple(lose(held.after, lambda r: r.model == OLD[0].name))
    drift = measure_drift(plan_of(second_grader="judge"), replace(held, after=lost), REGISTRATION)
    assert drift.answers == sum(r.wave == 0 and r.model != OLD[0].name for r in rows)
    assert drift.models[1].public is None
    assert drift.models[1].control.state == "not run"
    assert drift.pooled.state == "agrees"


def test_a_second_grader_that_drifted_withholds_the_looks_verdicts(rows) -> None:
    table = make_table([*rows, *[replace(r, grader="judge") for r in rows]])
    plan = plan_of(second_grader="judge", regrade=1.0, sensitivity=[], permutations=999)

    def verdicts(*drifts: Drift) -> dict[tuple[int, str], str]:
        found = analyse(plan, table, REGISTRATION, controls=drift_controls(plan, drifts))
        return {(v.wave, v.model): f"{v.verdict}: {v.note}" for v in found.verdicts}

    sound = [measure_drift(plan, regraded(rows, uneven, wave), REGISTRATION) for wave in (1, 2)]
    assert verdicts(*sound)[1, "told"].startswith("contaminated")
    moved = regraded(rows, lambda row: uneven(row) - 0.3 * (row.arm == Arm.PRIVATE), 2)
    found = verdicts(sound[0], measure_drift(plan, moved, REGISTRATION))
    assert found[1, "told"].startswith("contaminated"), "the other look stands"
    for model in ("told", "later"):
        assert "withheld: C3 (answers graded again): judge graded" in found[2, model]
        assert "the change is not alike in the arms" in found[2, model]
    for none in (verdicts(sound[0]), verdicts(sound[0], replace(sound[1], share=0.5))):
        assert "`dosimeter judge grade --judge judge --again-at 2` does" in none[2, "told"]
    held = regraded(rows, uneven, 2)
    gone = lose(held.after, lambda r: True)
    empty = measure_drift(plan, replace(held, after=tuple(gone)), REGISTRATION)
    assert empty.pooled.state == "not run"
    assert "no archived answer was graded twice" in verdicts(sound[0], empty)[2, "told"]
    assert verdicts(sound[0], empty)[2, "told"].startswith("withheld: C3")
    other = verdicts(sound[0], replace(sound[1], judge="another"))
    assert "judge has not graded the answers of wave 0 again" in other[2, "told"]


def test_exact_grading_needs_no_judge_and_says_so(rows) -> None:
    table, plan = make_table(rows), plan_of(sensitivity=[], permutations=199)
    exact = analyse(plan, table, REGISTRATION).standard.controls
    assert [(c.what, c.state) for c in exact if c.kind == "C3"] == [
        ("graded exactly", "agrees")
    ] * 2
    judged = analyse(plan, table, REGISTRATION, scored_by="gpt").standard.controls
    told = [c for c in judged if c.kind == "C3"]
    assert [c.state for c in told] == ["not run"] * 2
    assert "those of gpt: neither its errors by arm nor a drift are known" in told[0].says

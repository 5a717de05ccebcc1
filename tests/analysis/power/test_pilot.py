"""Scores of a pilot against turns, counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from analysis.power.pilot import score_by_turns
from registry.result_row import Arm, ResultRow, Status
from tests.analysis.conftest import make_row

ROW = make_row(arm=Arm.PRIVATE, stratum="a/easy", instance="i1", turns=3)


def run(score: float, instance: str = "i1", replicate: int = 0, **values: object) -> ResultRow:
    changed = {"score": score, "instance": instance, "replicate": replicate, **values}
    return replace(ROW, **changed)  # type: ignore[arg-type]


def test_scores_ceiling_floor_and_limit_are_shares_of_runs() -> None:
    """Instances count alike, whatever their runs; the error is that of their means. A run that
    takes more turns counts 0 after fewer."""
    ended = {"stop_reason": "turn_limit", "turns": 6}
    rows = [
        run(0.0, "i1", 0, **ended),
        run(1.0, "i1", 1),
        run(1.0, "i2", 0),
        run(0.2, "i3", 0, **ended),
        replace(ROW, score=None, status=Status.MISSING, passed=None, total=None, replicate=7),
    ]
    quarter, half, whole = score_by_turns(rows, {"a/easy": 6})
    assert (whole.turns, whole.limit, whole.instances, whole.runs) == (6, 6, 3, 4)
    assert whole.score == pytest.approx((0.5 + 1.0 + 0.2) / 3)
    variance = sum((mean - whole.score) ** 2 for mean in (0.5, 1.0, 0.2)) / 2
    assert whole.error == pytest.approx(math.sqrt(variance / 3))
    assert (whole.ceiling, whole.floor, whole.at_limit) == (0.5, 0.25, 0.5)
    assert (half.turns, half.at_limit, half.floor) == (3, 0.5, 0.5)
    assert half.score == pytest.approx((0.5 + 1.0 + 0.0) / 3)
    assert (quarter.turns, quarter.score, quarter.at_limit) == (1, 0, 1)
    (once,) = score_by_turns([run(0.4, turns=1)], {"a/easy": 1})
    assert (once.turns, once.score, once.error) == (1, 0.4, None)

"""Probes go through the plan's permutation test, and nothing with holes does."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.plan.presets import basic_plan
from analysis.probe.probes import compare_exposure

PLAN = basic_plan(["a", "b"], 4, permutations=1999)
STRATUM = np.repeat([0, 1], 8)
PUBLIC = np.tile(np.arange(8) < 4, 2)
NOISE = np.random.default_rng(3).normal(scale=0.1, size=16)


def test_a_reader_is_told_from_one_that_guesses() -> None:
    guesses = [0.1, 0.0, 0.2, 0.0, 0.1, 0.2, 0.0, 0.0] * 2
    columns = {"reader": list(PUBLIC.astype(float)), "guesser": guesses}
    reader, guesser = compare_exposure(PLAN, columns, STRATUM, PUBLIC, wave=1, registration="r")
    assert (reader.public, reader.private, reader.gap) == (1, 0, 1)
    assert reader.p_adjusted == pytest.approx(1 / 70**2, rel=1e-6)  # all allocations, exactly
    assert reader.exposed
    assert not guesser.exposed
    assert guesser.gap == pytest.approx(0)
    assert reader.n_public == 8


def test_p_is_that_of_every_allocation() -> None:
    values = np.random.default_rng(1).random(6)
    public = np.arange(6) < 3

    def gap(chosen: tuple[int, ...]) -> float:
        mask = np.isin(np.arange(6), chosen)
        return float(values[mask].mean() - values[~mask].mean())

    every = [gap(chosen) for chosen in combinations(range(6), 3)]
    wanted = np.mean([each >= gap((0, 1, 2)) - 1e-9 for each in every])
    stratum = np.zeros(6, dtype=np.int64)
    (row,) = compare_exposure(
        basic_plan(["a"], 3), {"m": list(values)}, stratum, public, wave=0, registration="r"
    )
    assert row.p == pytest.approx(wanted)
    assert row.gap == pytest.approx(gap((0, 1, 2)))


def test_constant_scores_have_the_scales_interval_and_prove_nothing() -> None:
    columns = {"m": [1.0] * 16}
    (score,) = compare_exposure(PLAN, columns, STRATUM, PUBLIC, wave=0, registration="r")
    assert (score.gap, score.interval, score.p) == (0, (-1, 1), 1)


@pytest.mark.parametrize(
    ("scores", "public", "message"),
    [
        ([0.0] * 15 + [float("nan")], PUBLIC, "is missing or is no number"),
        ([1.0] * 16, STRATUM == 0, "one arm only"),
    ],
)
def test_holes_and_single_arms_are_refused(
    scores: list[float], public: NDArray[np.bool_], message: str
) -> None:
    with pytest.raises(AnalysisError, match=message):
        list(compare_exposure(PLAN, {"m": scores}, STRATUM, public, wave=2, registration="r"))

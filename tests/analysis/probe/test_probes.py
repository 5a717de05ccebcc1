"""Probes go through the plan's permutation test, each in its own direction, and nothing with holes
does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.plan.presets import basic_plan
from analysis.probe.probes import ArmGap, test_exposure, test_texts

PLAN = basic_plan(["a", "b"], 4, permutations=1999)
STRATUM = np.repeat([0, 1], 8)
PUBLIC = np.tile(np.arange(8) < 4, 2)
NOISE = np.random.default_rng(3).normal(scale=0.1, size=16)


def test_who_was_trained_finds_public_text_likelier() -> None:
    columns = {
        ("reader", "loss"): list(3 - 2 * PUBLIC + NOISE),
        ("reader", "min_k"): list(-9 + 2 * PUBLIC - NOISE),
        ("other", "loss"): list(3 + 2 * PUBLIC + NOISE),  # less likely: no sign of exposure
        ("other", "min_k_plus"): list(NOISE),
    }
    rows = test_texts(PLAN, columns, STRATUM, PUBLIC, wave=1, registration="r")
    loss, min_k, worse, noise = rows
    assert (loss.model, loss.measure, loss.wave, loss.strata) == ("reader", "loss", 1, 2)
    assert loss.gap == pytest.approx(-2, abs=0.2)
    assert loss.interval is not None
    assert loss.interval[1] < 0
    assert loss.p == min_k.p == pytest.approx(1 / 70**2, rel=1e-6)
    # Adjusted: with all labels turned round, the loss of `other` does as well.
    assert loss.p_adjusted == pytest.approx(2 / 70**2, rel=1e-6)
    assert min_k.gap == pytest.approx(2, abs=0.2)
    assert worse.p == pytest.approx(1)
    assert noise.p_adjusted > 0.05
    assert all(row.exploratory for row in rows)


def test_a_reader_is_told_from_one_that_guesses() -> None:
    guesses = [0.1, 0.0, 0.2, 0.0, 0.1, 0.2, 0.0, 0.0] * 2
    columns = {("reader", "score"): list(PUBLIC.astype(float)), ("guesser", "score"): guesses}
    reader, guesser = test_exposure(PLAN, columns, STRATUM, PUBLIC, wave=1, registration="r")
    assert (reader.public, reader.private, reader.gap) == (1, 0, 1)
    assert reader.p_adjusted == pytest.approx(1 / 70**2, rel=1e-6)  # all allocations, exactly
    assert reader.exposed
    assert not guesser.exposed
    assert guesser.gap == pytest.approx(0)
    assert reader.n_public == 8


@pytest.mark.parametrize(("test", "sign"), [(test_exposure, 1), (test_texts, -1)])
def test_p_is_that_of_every_allocation(test: Callable[..., Sequence[ArmGap]], sign: int) -> None:
    """Of public above private for scores, and below for the loss."""
    values = np.random.default_rng(1).random(6)
    public = np.arange(6) < 3

    def gap(chosen: tuple[int, ...]) -> float:
        mask = np.isin(np.arange(6), chosen)
        return float(values[mask].mean() - values[~mask].mean())

    every = [sign * gap(chosen) for chosen in combinations(range(6), 3)]
    wanted = np.mean([each >= sign * gap((0, 1, 2)) - 1e-9 for each in every])
    column = {("m", "score" if sign > 0 else "loss"): list(values)}
    stratum = np.zeros(6, dtype=np.int64)
    (row,) = test(basic_plan(["a"], 3), column, stratum, public, wave=0, registration="r")
    assert row.p == pytest.approx(wanted)
    assert row.gap == pytest.approx(gap((0, 1, 2)))


def test_constant_measures_have_no_interval_and_prove_nothing() -> None:
    columns = {("m", "loss"): [2.0] * 16}
    (row,) = test_texts(PLAN, columns, STRATUM, PUBLIC, wave=0, registration="r")
    assert (row.gap, row.interval, row.p) == (0, None, 1)
    columns = {("m", "score"): [1.0] * 16}
    (score,) = test_exposure(PLAN, columns, STRATUM, PUBLIC, wave=0, registration="r")
    assert (score.gap, score.interval, score.p) == (0, (-1, 1), 1)  # the scale's own


@pytest.mark.parametrize("test", [test_exposure, test_texts])
def test_holes_and_single_arms_are_refused(test: Callable[..., object]) -> None:
    name = ("m", "loss")
    hole = [0.0] * 15 + [float("nan")]
    with pytest.raises(AnalysisError, match="is missing or is no number"):
        test(PLAN, {name: hole}, STRATUM, PUBLIC, wave=2, registration="r")
    with pytest.raises(AnalysisError, match="one arm only"):
        test(PLAN, {name: [1.0] * 16}, STRATUM, STRATUM == 0, wave=2, registration="r")
    assert test(PLAN, {}, STRATUM, PUBLIC, wave=2, registration="r") == ()

"""Probes from memory go through the plan's permutation test, and nothing with holes does."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.plan.presets import basic_plan
from analysis.probe.probes import test_exposure
from analysis.stats.permutation import permutation_seed

PLAN = basic_plan(["a", "b"], 4, permutations=1999)
STRATUM = np.repeat([0, 1], 8)
PUBLIC = np.tile(np.arange(8) < 4, 2)


def test_a_reader_is_told_from_one_that_guesses() -> None:
    guesses = np.tile([0.1, 0.0, 0.2, 0.0, 0.1, 0.2, 0.0, 0.0], 2)
    scores = np.stack([PUBLIC.astype(float), guesses], axis=1)
    reader, guesser = test_exposure(
        PLAN, ["reader", "guesser"], scores, STRATUM, PUBLIC, wave=1, registration="r"
    )
    assert (reader.public, reader.private, reader.gap) == (1, 0, 1)
    assert reader.p_adjusted == pytest.approx(1 / 70**2, rel=1e-6)  # all allocations, exactly
    assert reader.exposed
    assert not guesser.exposed
    assert guesser.gap == pytest.approx(0)
    assert reader.n_public == 8


def test_p_is_that_of_every_allocation() -> None:
    scores = np.random.default_rng(1).random(6)
    public = np.array([True, True, True, False, False, False])
    from itertools import combinations

    def gap(chosen: tuple[int, ...]) -> float:
        mask = np.isin(np.arange(6), chosen)
        return float(scores[mask].mean() - scores[~mask].mean())

    every = [gap(chosen) for chosen in combinations(range(6), 3)]
    wanted = np.mean([g >= gap((0, 1, 2)) - 1e-9 for g in every])
    (row,) = test_exposure(
        basic_plan(["a"], 3), ["m"], scores[:, None], np.zeros(6, dtype=np.int64), public,
        wave=0, registration="r",
    )  # fmt: skip
    assert row.p == pytest.approx(wanted)
    assert row.gap == pytest.approx(gap((0, 1, 2)))


def test_holes_and_single_arms_are_refused() -> None:
    scores = np.zeros((16, 1))
    scores[3] = np.nan
    with pytest.raises(AnalysisError, match="probes are missing"):
        test_exposure(PLAN, ["m"], scores, STRATUM, PUBLIC, wave=2, registration="r")
    with pytest.raises(AnalysisError, match="one arm only"):
        test_exposure(
            PLAN, ["m"], np.zeros((16, 1)), STRATUM, STRATUM == 0, wave=2, registration="r"
        )
    assert test_exposure(PLAN, [], scores[:, :0], STRATUM, PUBLIC, wave=2, registration="r") == ()


def test_permutations_have_a_seed_of_their_own() -> None:
    assert permutation_seed("r", "S1", "exposure", "1") != permutation_seed("r", "1")

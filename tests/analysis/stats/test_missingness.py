"""Missingness by arm against brute force and a simulated null; bounds by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.errors import AnalysisError
from analysis.stats import missingness
from analysis.stats.missingness import adverse_bounds, lost_share

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan


def brute_force(share, public):
    n, k = len(share), int(sum(public))

    def gap(chosen):
        rest = [i for i in range(n) if i not in chosen]
        return share[list(chosen)].mean() - share[rest].mean()

    observed = abs(gap(tuple(np.flatnonzero(public))))
    every = [abs(gap(chosen)) for chosen in combinations(range(n), k)]
    return np.mean([g >= observed - 1e-12 for g in every])


@settings(max_examples=40, deadline=None)
@given(arrays(int, (8, 2), elements=st.integers(0, 2)), st.integers(1, 7))
def test_the_test_is_its_definition(missing, k):
    public, runs = np.arange(8) < k, np.full((8, 2), 2)
    found = missingness.test_by_arm(missing, runs, np.zeros(8, int), public, 99, 1)
    for m in range(2):
        assert found.p[m] == pytest.approx(brute_force(missing[:, m] / 2, public))
        assert found.share_public[m] == pytest.approx(missing[:k, m].sum() / (2 * k))
        assert found.share_private[m] == pytest.approx(missing[k:, m].sum() / (2 * (8 - k)))


def test_either_arm_is_seen_and_nothing_missing_is_no_finding():
    stratum, public = np.repeat([0, 1], 40), np.tile([True, False], 40)
    missing = np.stack([public & (stratum == 0), ~public & (stratum == 1), 0 * public], 1)
    found = missingness.test_by_arm(
        missing.astype(int), np.ones((80, 3), int), stratum, public, 999, 3
    )
    assert found.p.tolist() == [0.001, 0.001, 1.0]
    assert found.share_public.tolist() == [0.5, 0.0, 0.0]
    assert found.share_private.tolist() == [0.0, 0.5, 0.0]
    assert found.needs_bound.tolist() == [True, True, False]


def test_much_missing_asks_for_the_bound_though_the_arms_are_alike():
    public = np.tile([True, False], 50)
    missing = np.repeat(np.arange(50) < 3, 2)[:, None].astype(int)
    found = missingness.test_by_arm(
        missing, np.ones((100, 1), int), np.zeros(100, int), public, 199, 3
    )
    assert found.p[0] == 1.0
    assert found.needs_bound.tolist() == [True]


def test_a_model_that_owed_nothing_is_not_missing():
    public = np.tile([True, False], 10)
    runs = np.stack([np.ones(20, int), np.zeros(20, int)], 1)
    found = missingness.test_by_arm(np.zeros((20, 2), int), runs, np.zeros(20, int), public, 99, 3)
    assert np.isnan([found.share_public[1], found.share_private[1]]).all()
    assert found.p[1] == 1.0
    assert not found.needs_bound.any()
    with pytest.raises(AnalysisError, match="owed"):
        missingness.test_by_arm(runs + 1, runs, np.zeros(20, int), public, 99, 3)


def test_size_under_the_null():
    rng = np.random.default_rng(8)
    stratum, public = np.repeat(np.arange(4), 16), np.tile([True, False], 32)
    missing = rng.binomial(60, 0.1, (64, 1000))  # of many runs, so that few gaps are equal
    found = missingness.test_by_arm(missing, np.full((64, 1000), 60), stratum, public, 299, 5)
    assert 0.035 <= (found.p <= 0.05).mean() <= 0.065


def test_bounds_fill_what_is_missing_and_nothing_else():
    values = np.array([[[0.5, 0.6]], [[NAN, NAN]], [[0.8, 0.1]], [[NAN, NAN]]])
    public = np.array([True, True, False, False])
    low, high = adverse_bounds(values, public)
    assert low[:, 0].tolist() == [[0.5, 0.6], [0.0, 0.0], [0.8, 0.1], [1.0, 1.0]]
    assert high[:, 0].tolist() == [[0.5, 0.6], [1.0, 1.0], [0.8, 0.1], [0.0, 0.0]]


def test_bounds_move_means_of_some_runs_by_those_that_they_lack():
    values = np.array([[[0.8]], [[0.8]], [[NAN]], [[NAN]]])
    public = np.array([True, False, True, False])
    share = lost_share(np.array([[1], [1], [2], [0]]), np.array([[4], [4], [2], [0]]))
    low, high = adverse_bounds(values, public, share)
    np.testing.assert_allclose(low[:, 0, 0], [0.6, 0.85, 0.0, NAN])
    np.testing.assert_allclose(high[:, 0, 0], [0.85, 0.6, 1.0, NAN])


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, (8, 3), elements=st.sampled_from([0.0, 0.25, 1.0])),
    arrays(bool, (8, 3), elements=st.booleans()),
)
def test_no_outcome_of_the_lost_runs_lies_outside_the_bounds(truth, lost):
    """Two of three runs kept or lost at will: the full means' gap lies between the bounds."""
    public = np.arange(8) < 4
    kept = np.where(lost, 0.0, truth).sum(1) / np.maximum((~lost).sum(1), 1)
    values = np.where(lost.all(axis=1), NAN, kept)[:, None, None]
    share = lost_share(lost.sum(1)[:, None], np.full((8, 1), 3))
    low, high = (
        v[public].mean() - v[~public].mean() for v in adverse_bounds(values, public, share)
    )
    full = truth.mean(1)
    assert low - 1e-9 <= full[public].mean() - full[~public].mean() <= high + 1e-9

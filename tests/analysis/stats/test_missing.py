"""Seed means with their lost runs filled, by hand; ranks against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from analysis.stats.missing import adverse_fill, blind_fill, centred_ranks, fill_lost, lost_share

pytestmark = pytest.mark.filterwarnings("error")
NAN = float("nan")


def test_means_of_some_runs_move_by_those_that_they_lack():
    values = np.array([[[0.8]], [[0.8]], [[NAN]], [[NAN]]])
    public = np.array([True, False, True, False])
    share = lost_share(np.array([[1], [1], [2], [0]]), np.array([[4], [4], [2], [0]]))
    low, high = (
        fill_lost(values, share, adverse_fill(public, against_claim=against))
        for against in (True, False)
    )
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
    filled = (
        fill_lost(values, share, adverse_fill(public, against_claim=a)) for a in (True, False)
    )
    low, high = (v[public].mean() - v[~public].mean() for v in filled)
    full = truth.mean(1)
    assert low - 1e-9 <= full[public].mean() - full[~public].mean() <= high + 1e-9


def test_the_blind_fill_is_the_mean_of_both_arms_in_the_stratum():
    values = np.array([[[0.2, 0.4]], [[0.6, NAN]], [[NAN, NAN]], [[0.9, 0.1]], [[NAN, NAN]]])
    filled = blind_fill(values, np.array([4, 4, 4, 7, 8]))[:, 0]
    expected = [[0.4, 0.4], [0.4, 0.4], [0.4, 0.4], [0.9, 0.1], [NAN, NAN]]
    np.testing.assert_allclose(filled, expected)


def test_ranks_are_scipys_within_strata():
    rng = np.random.default_rng(2)
    stratum, values = np.repeat([0, 1], 9), rng.integers(0, 4, 18) / 4
    values[3] = NAN
    found = centred_ranks(values, stratum)
    assert found[3] == 0
    expected = (stats.rankdata(values[9:]) - 0.5) / 9 - 0.5
    np.testing.assert_allclose(found[9:], expected)
    assert found[:9].sum() == pytest.approx(0)

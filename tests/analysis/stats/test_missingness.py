"""Bounds on what lost runs could hide, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.stats.adjustment import adverse_bounds, lost_share

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan


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

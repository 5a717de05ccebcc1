"""Equivalence against scipy and statsmodels, and against its own interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind

from analysis.errors import AnalysisError
from analysis.stats.intervals import estimate_gap, tost

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("shift", [0.0, 0.03, -0.2])
def test_one_stratum_is_statsmodels_on_welch(shift):
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.5 + shift, 0.1, 60), rng.normal(0.5, 0.15, 80)
    gap = estimate_gap(np.append(a, b), np.zeros(140, int), np.arange(140) < 60)
    found = tost(gap.gap, gap.se, gap.df, 0.05)
    p, lower, upper = ttost_ind(a, b, -0.05, 0.05, usevar="unequal")
    assert (found.p_lower, found.p_upper) == pytest.approx((lower[1], upper[1]), rel=1e-9)
    assert found.equivalent == (p < 0.05)
    ci = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.90)
    assert found.interval90 == pytest.approx((ci.low, ci.high))
    assert found.interval90[1] == pytest.approx(gap.upper)
    assert found.no_inflation == (gap.upper < 0.05)


@settings(max_examples=200, deadline=None)
@given(st.floats(-0.3, 0.3), st.floats(1e-3, 0.2), st.floats(1, 500), st.floats(0.01, 0.2))
def test_interval_and_tests_say_the_same(gap, se, df, margin):
    found = tost(gap, se, df, margin)
    low, high = found.interval90
    p = max(found.p_lower, found.p_upper)
    if abs(p - 0.05) > 1e-9:
        assert found.equivalent == (p < 0.05)
    assert found.equivalent <= found.no_inflation
    assert low < gap < high
    assert found.p_upper == pytest.approx(tost(-gap, se, df, margin).p_lower)


def test_a_low_gap_is_no_inflation_but_not_equivalent():
    found = tost(-0.10, 0.02, 300, 0.05)
    assert (found.no_inflation, found.equivalent) == (True, False)


def test_without_a_variance_nothing_is_claimed():
    found = tost(0.0, None, None, 0.05)
    assert (found.p_lower, found.p_upper, found.interval90) == (1.0, 1.0, (-1.0, 1.0))
    assert not found.equivalent
    assert not found.no_inflation


@pytest.mark.parametrize(("se", "df", "margin"), [(0.1, 9, 0), (0.1, 9, math.nan), (0, 9, 0.05)])
def test_what_makes_no_sense_is_refused(se, df, margin):
    with pytest.raises(AnalysisError, match="above 0"):
        tost(0.0, se, df, margin)


@pytest.mark.parametrize(("n", "power"), [(488, 0.8), (617, 0.9)])
def test_the_instances_that_the_specification_promises_suffice(n, power):
    """SD .267 in both arms, no true gap: TOST at ± .05 has the power that P5 states."""
    se, df = 0.267 * math.sqrt(2 / n), 2 * (n - 1)
    half = 0.05 - stats.t.ppf(0.95, df) * se
    assert 2 * stats.norm.cdf(half / se) - 1 == pytest.approx(power, abs=0.003)

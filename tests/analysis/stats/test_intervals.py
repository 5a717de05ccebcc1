"""The gap, its interval and equivalence against scipy and statsmodels, by hand, and by simulated
coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind

from analysis.stats.intervals import estimate_gap, estimate_gaps, estimate_mean, p_words, tost
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")


def test_one_stratum_is_welch():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.6, 0.2, 17), rng.normal(0.5, 0.1, 23)
    found = estimate_gap(np.append(a, b), np.zeros(40, int), np.arange(40) < 17)
    theirs = stats.ttest_ind(a, b, equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert found.gap == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    assert found.df == pytest.approx(theirs.df, rel=1e-9)
    assert found.interval == pytest.approx((interval.low, interval.high), abs=1e-10)
    one_sided = stats.ttest_ind(a, b, equal_var=False, alternative="less")
    assert found.upper == pytest.approx(one_sided.confidence_interval(0.95).high, abs=1e-10)
    assert (found.n_public, found.n_private) == (17, 23)


def test_strata_weigh_alike_whatever_their_size():
    scores = np.array([0.9, 0.7, 0.5, 0.6, 0.6, 0.8, 0.4, 0.7, 0.5, 0.6])
    stratum = np.array([0] * 4 + [1] * 6)
    public = np.array([1, 1, 0, 0, 1, 1, 0, 0, 0, 0], dtype=bool)
    found = estimate_gap(scores, stratum, public)
    v = [np.var(scores[(stratum == h) & (public == a)], ddof=1) for h in (0, 1) for a in (1, 0)]
    n = [2, 2, 2, 4]
    parts = [s / m for s, m in zip(v, n, strict=True)]
    df = sum(parts) ** 2 / sum(p**2 / (m - 1) for p, m in zip(parts, n, strict=True))
    assert found.gap == pytest.approx((0.25 + 0.15) / 2)
    assert found.se == pytest.approx(np.sqrt(sum(parts)) / 2)
    assert found.df == pytest.approx(df)


@pytest.mark.parametrize(("scores", "public"), cases(__file__, "alike"))
def test_without_a_variance_nothing_is_claimed(scores, public):
    stratum, flags = np.zeros(len(scores), int), np.array(public, bool)
    found = estimate_gap(np.array(scores, float), stratum, flags)
    assert (found.se, found.df, found.interval, found.upper) == (None, None, (-1.0, 1.0), 1.0)
    assert estimate_mean(np.array([0.5]), np.zeros(1, int)).interval is None


def test_an_arm_that_does_not_vary_keeps_the_others_variance():
    rng = np.random.default_rng(0)
    a, b = np.ones(12), rng.random(12)
    found = estimate_gap(np.append(a, b), np.zeros(24, int), np.arange(24) < 12)
    assert found.df == pytest.approx(11)
    assert found.se == pytest.approx(b.std(ddof=1) / np.sqrt(12))


def test_coverage():
    """Skewed bounded scores, four strata of unlike spread: 95 % intervals cover 93-97 %."""
    rng, covered, below = np.random.default_rng(11), 0, 0
    stratum, public = np.repeat(np.arange(4), 32), np.tile([True, False], 64)
    shape = np.array([1.0, 2.0, 4.0, 8.0])[stratum]
    truth = np.mean([0.05] * 4)
    for _ in range(2_000):
        found = estimate_gap(0.9 * rng.beta(shape, 2.0) + 0.05 * public, stratum, public)
        covered += found.interval[0] <= truth <= found.interval[1]
        below += truth < found.upper
    assert 0.93 <= covered / 2_000 <= 0.97
    assert 0.93 <= below / 2_000 <= 0.97


def test_an_arms_mean_is_a_t_interval():
    scores = np.array([0.2, 0.4, 0.5, 0.9])
    found = estimate_mean(scores, np.zeros(4, int))
    low, high = stats.t.interval(0.95, 3, scores.mean(), stats.sem(scores))
    assert found.interval == pytest.approx((max(0, low), min(1, high)))


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


@settings(max_examples=200, deadline=None)
@given(st.floats(-0.3, 0.3), st.floats(1e-3, 0.2), st.floats(1, 500), st.floats(0.01, 0.2))
def test_interval_and_tests_say_the_same(gap, se, df, margin):
    found = tost(gap, se, df, margin)
    low, high = found.interval90
    p = max(found.p_lower, found.p_upper)
    if abs(p - 0.05) > 1e-9:
        assert found.equivalent == (p < 0.05)
    assert low < gap < high
    assert found.p_upper == pytest.approx(tost(-gap, se, df, margin).p_lower)


def test_a_low_gap_is_below_the_margin_but_not_equivalent():
    found = tost(-0.10, 0.02, 300, 0.05)
    assert (found.interval90[1] < 0.05, found.equivalent) == (True, False)


def test_without_a_variance_there_is_no_equivalence():
    found = tost(0.0, None, None, 0.05)
    assert (found.p_lower, found.p_upper, found.interval90) == (1.0, 1.0, (-1.0, 1.0))
    assert not found.equivalent


@pytest.mark.parametrize(("n", "power"), [(488, 0.8), (617, 0.9)])
def test_the_instances_that_the_specification_promises_suffice(n, power):
    """SD .267 in both arms, no true gap: TOST at ± .05 has the power that P5 states."""
    se, df = 0.267 * math.sqrt(2 / n), 2 * (n - 1)
    half = 0.05 - stats.t.ppf(0.95, df) * se
    assert 2 * stats.norm.cdf(half / se) - 1 == pytest.approx(power, abs=0.003)


def test_pairs_have_the_interval_of_the_paired_t():
    """Strata of one instance an arm."""
    rng = np.random.default_rng(3)
    a, b = rng.random(9), rng.random(9)
    stratum, public = np.tile(np.arange(9), 2), np.arange(18) < 9
    found = estimate_gap(np.append(a, b), stratum, public)
    theirs = stats.ttest_rel(a, b)
    interval = theirs.confidence_interval(0.95)
    assert found.interval == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert found.df == pytest.approx(theirs.df)


def test_one_stratum_of_a_pair_beside_larger_ones_has_no_variance_and_two_have():
    scores = np.array([0.2, 0.7, 0.4, 0.5, 0.9, 0.1, 0.6, 0.3])
    public = np.tile([True, False], 4)
    assert estimate_gap(scores, np.array([0, 0, 0, 0, 0, 0, 1, 1]), public).se is None
    found = estimate_gap(scores, np.array([0, 0, 0, 0, 1, 1, 2, 2]), public)
    within = sum(np.var(scores[:4][public[:4] == arm], ddof=1) / 2 for arm in (True, False))
    between = 2 * np.var([0.9 - 0.1, 0.6 - 0.3], ddof=1)
    assert found.se == pytest.approx(math.sqrt(within + between) / 3)


def test_coverage_of_pairs():
    """Strata that differ in level, not in effect: the collapsed variance errs by nothing."""
    rng, covered, pairs = np.random.default_rng(12), 0, 12
    stratum, public = np.repeat(np.arange(pairs), 2), np.tile([True, False], pairs)
    level = np.repeat(rng.uniform(0.2, 0.6, pairs), 2)[:, None]
    scores = level + 0.1 * public[:, None] + rng.normal(0, 0.1, (2 * pairs, 2_000))
    found = estimate_gaps(scores, stratum, public)
    half = stats.t.ppf(0.975, found.df) * found.se
    covered = (abs(found.gap - 0.1) <= half).mean()
    assert 0.935 <= covered <= 0.965


def test_columns_at_once_are_columns_alone():
    rng = np.random.default_rng(4)
    scores = rng.random((24, 3, 2))
    scores[rng.random((24, 3)) < 0.2] = math.nan
    stratum, public = np.repeat([0, 1], 12), np.tile([True, False], 12)
    every = estimate_gaps(scores, stratum, public)
    for m in range(3):
        for o in range(2):
            one, alone = every.one(m, o), estimate_gap(scores[:, m, o], stratum, public)
            assert (one.gap, one.se, one.df) == pytest.approx((alone.gap, alone.se, alone.df))
            assert (one.n_public, one.n_private) == (alone.n_public, alone.n_private)


@pytest.mark.parametrize(("p", "floor", "words"), cases(__file__, "words"))
def test_a_p_at_its_floor_is_a_bound(p, floor, words):
    assert p_words(p, floor) == words


def test_an_interval_ends_where_scores_do():
    found = estimate_gap(np.array([1.0, 0.0, 0.0, 0.3]), np.zeros(4, int), np.arange(4) < 2)
    assert (found.interval, found.upper) == ((-1.0, 1.0), 1.0)
    assert tost(found.gap, found.se, found.df, 0.05).interval90 == (-1.0, 1.0)

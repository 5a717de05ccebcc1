"""The gap and its interval against scipy's Welch test, by hand, and by simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.stats.intervals import estimate_gap, estimate_mean

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


@pytest.mark.parametrize(
    ("scores", "public"),
    [
        ([0.5, 0.2], [1, 0]),
        ([0.5] * 6, [1, 0] * 3),
        ([0.1] * 6, [1, 0] * 3),
        ([1, 1, 0], [1, 1, 0]),
    ],
)
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
        scores = 0.9 * rng.beta(shape, 2.0) + 0.05 * public
        found = estimate_gap(scores, stratum, public)
        covered += found.interval[0] <= truth <= found.interval[1]
        below += truth < found.upper
    assert 0.93 <= covered / 2_000 <= 0.97
    assert 0.93 <= below / 2_000 <= 0.97


def test_an_arms_mean_is_a_t_interval():
    scores = np.array([0.2, 0.4, 0.5, 0.9])
    found = estimate_mean(scores, np.zeros(4, int))
    low, high = stats.t.interval(0.95, 3, scores.mean(), stats.sem(scores))
    assert found.interval == pytest.approx((max(0, low), min(1, high)))

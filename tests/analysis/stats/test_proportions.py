"""Intervals that know which answers share an instance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from analysis.stats.proportions import (
    Z,
    difference,
    effective_answers,
    mean_of,
    pooled,
    rate_of,
    wilson,
)

EXACT = 1e-12  # the same formula, another order of operations


def answers(*counts, size=1):
    """A rate of instances with so many right answers of ``size`` each."""
    return rate_of((i, j < y) for i, y in enumerate(counts) for j in range(size))


@pytest.mark.parametrize(
    ("right", "of", "low", "high"), [(20, 62, 0.21954, 0.44632), (0, 1, 0.0, 0.79345)]
)
def test_wilsons_interval_is_the_articles(right, of, low, high):
    assert wilson(right / of, of) == pytest.approx((low, high), abs=5e-6)


@pytest.mark.parametrize(("right", "of"), [(0, 20), (1, 20), (13, 20), (20, 20), (1, 1), (0, 3)])
def test_one_answer_an_instance_gives_wilsons_interval(right, of):
    rate = answers(*[1] * right, *[0] * (of - right))
    want = proportion_confint(right, of, method="wilson")
    assert rate.mean == right / of
    assert rate.effective == pytest.approx(of, rel=EXACT)
    assert rate.interval == pytest.approx(want, abs=EXACT)


def test_answers_that_repeat_themselves_tell_no_more_than_one():
    once, thrice = answers(1, 1, 0, 1, 0, 1, 1), answers(3, 3, 0, 3, 0, 3, 3, size=3)
    assert (thrice.answers, thrice.instances) == (21, 7)
    assert thrice.interval == pytest.approx(once.interval, abs=EXACT)


def test_the_variance_is_the_cluster_robust_one():
    counts, size = (3, 1, 2, 3, 0, 3, 2, 2, 3, 1, 3, 2), 3
    y = np.array([j < c for c in counts for j in range(size)], dtype=float)
    groups = np.repeat(np.arange(len(counts)), size)
    fit = OLS(y, np.ones((len(y), 1))).fit(cov_type="cluster", cov_kwds={"groups": groups})
    p, t = y.mean(), 2.200985160082949  # of 11 degrees of freedom
    want = p * (1 - p) / fit.bse[0] ** 2 * (Z / t) ** 2
    assert len(counts) < want < len(y)
    assert answers(*counts, size=size).effective == pytest.approx(want, rel=1e-9)


def test_missing_verdicts_are_counted_and_left_out():
    rate = rate_of([("a", True), ("a", None), ("b", None), ("c", False)])
    assert (rate.mean, rate.answers, rate.missing, rate.instances) == (0.5, 2, 2, 2)
    nothing = rate_of([("a", None)])
    assert (nothing.mean, nothing.interval, nothing.answers, nothing.missing) == (None, None, 0, 1)


def test_uneven_instances_weigh_by_their_answers():
    rate = rate_of([("a", True)] * 8 + [("b", True), ("c", True)])
    assert rate.mean == 1
    assert rate.effective == pytest.approx(100 / 66)  # (Σm)² / Σm²


def coverage(rng, share, instances, size, alike, runs=1000):
    """How often the interval holds the share, where two answers to an instance agree so much."""
    if alike in (0, 1):
        own = np.full((runs, instances), share)
        own = own if alike == 0 else (rng.random((runs, instances)) < share).astype(float)
    else:
        k = (1 - alike) / alike
        own = rng.beta(share * k, (1 - share) * k, (runs, instances))
    y, m = rng.binomial(size, own).astype(float), np.full((runs, instances), float(size))
    n, mean = effective_answers(y, m)[:, -1], y.sum(1) / m.sum(1)
    held = {pair: wilson(*pair) for pair in set(zip(mean.tolist(), n.tolist(), strict=True))}
    ends = [held[pair] for pair in zip(mean.tolist(), n.tolist(), strict=True)]
    return np.mean([low <= share <= high for low, high in ends])


@pytest.mark.parametrize("instances", [5, 20, 60])
@pytest.mark.parametrize("size", [1, 3])
def test_the_interval_holds_the_truth_as_often_as_it_says(instances, size):
    rng = np.random.default_rng(instances)
    found = [
        coverage(rng, share, instances, size, alike)
        for share in (0.5, 0.8, 0.95)
        for alike in ((0,) if size == 1 else (0, 0.2, 0.6, 1))
    ]
    assert min(found) > 0.90  # Wilson's own dips, at shares near 1
    assert np.mean(found) > 0.94


def test_the_interval_of_a_pool_of_unlike_questions_is_rather_too_wide():
    rng, held, shares = np.random.default_rng(3), [], (0.05, 0.4, 0.9, 1.0)
    for _ in range(200):
        rates = [answers(*(rng.random(20) < share).astype(int)) for share in shares]
        low, high = pooled(rates).interval
        held.append(low <= np.mean(shares) <= high)
    assert np.mean(held) > 0.95


def test_a_pool_is_right_answers_of_all_answers():
    rate = pooled([answers(1, 1, 1), answers(0), rate_of([("x", None)])])
    assert (rate.mean, rate.right, rate.answers, rate.missing) == (0.75, 3, 4, 1)
    assert rate.interval == pytest.approx(proportion_confint(3, 4, method="wilson"), abs=EXACT)
    assert pooled([]).mean is None


def test_a_mean_weighs_questions_alike_and_needs_them_all():
    rate = mean_of([answers(*[1] * 10), answers(1, 0)])
    assert rate.mean == 0.75
    assert rate.effective <= 1 / (0.25 / 10 + 0.25 / 2) + EXACT
    assert mean_of([answers(1), rate_of([])]).mean is None


def test_a_difference_has_newcombes_interval():
    first, second = answers(*[1] * 18, 0, 0), answers(*[1] * 3, *[0] * 17)
    gap, interval = difference(first, second)
    want = confint_proportions_2indep(18, 20, 3, 20, method="newcomb", compare="diff")
    assert math.isclose(gap, 0.75)
    assert interval == pytest.approx(want, abs=1e-6)
    assert difference(first, rate_of([])) is None

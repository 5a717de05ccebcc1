"""No inflation above the margin: Holm over the models, every outcome, the bound that decides, and
the rate of false clearing by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.clearing import clear_models, find_doubts
from analysis.stats.intervals import GapEstimates, estimate_gaps
from analysis.stats.permutation import holm

pytestmark = pytest.mark.filterwarnings("error")
MARGIN = 0.05


def estimates(gap, se, n=200):
    gap, se = np.array(gap, dtype=float), np.array(se, dtype=float)
    count = np.full(gap.shape, n)
    return GapEstimates(gap, se, np.where(np.isnan(se), np.nan, 90.0), count, count)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.floats(-0.08, 0.08), st.floats(1e-3, 0.05)] * 2), min_size=1, max_size=4
    )
)
def test_the_bound_lies_below_the_margin_if_and_only_if_holm_clears(models):
    gap = [[g, h] for g, _, h, _ in models]
    se = [[s, r] for _, s, _, r in models]
    found = clear_models(estimates(gap, se), MARGIN)
    p = stats.t.cdf((np.array(gap) - MARGIN) / np.array(se), 90).max(axis=1)
    np.testing.assert_allclose(found.p, p, rtol=1e-9)
    np.testing.assert_allclose(found.adjusted, holm(p), rtol=1e-9)
    for m in range(len(models)):
        if abs(found.adjusted[m] - 0.05) > 1e-9:
            assert found.cleared[m] == (found.adjusted[m] < 0.05) == (found.bound[m] < MARGIN)
        o = found.outcome[m]
        upper = gap[m][o] + stats.t.ppf(1 - found.level[m], 90) * se[m][o]
        assert found.bound[m] == pytest.approx(upper)


def test_every_outcome_must_lie_below_the_margin():
    found = clear_models(estimates([[-0.02, 0.04], [-0.02, -0.02]], [[0.01] * 2] * 2), MARGIN)
    assert found.cleared.tolist() == [False, True]
    assert found.outcome[0] == 1
    blind = clear_models(estimates([[-0.02, 0.0]], [[0.01, math.nan]]), MARGIN)
    assert (blind.cleared[0], blind.p[0], blind.bound[0]) == (False, 1.0, 1.0)


def test_a_gap_far_below_zero_clears_nothing_with_few_instances():
    low = [[-0.04, -0.09]], [[0.03, 0.03]]
    many, few = (clear_models(estimates(*low, n), MARGIN) for n in (50, 49))
    assert many.cleared[0]
    assert np.isnan(many.lower[0])
    assert not few.cleared[0]
    assert few.lower[0] == pytest.approx(-0.09 - stats.t.ppf(0.95, 90) * 0.03)
    assert few.bound[0] < MARGIN


def test_looks_at_once_are_looks_alone():
    rng = np.random.default_rng(1)
    gap, se = rng.normal(0, 0.04, (6, 3, 2)), rng.uniform(0.01, 0.03, (6, 3, 2))
    every = clear_models(estimates(gap, se), MARGIN)
    for b in range(6):
        alone = clear_models(estimates(gap[b], se[b]), MARGIN)
        np.testing.assert_array_equal(every.cleared[b], alone.cleared)
        np.testing.assert_allclose(every.bound[b], alone.bound)


@pytest.mark.parametrize("instances", [32, 64, 512])
def test_a_look_clears_a_model_beyond_the_margin_in_at_most_five_of_a_hundred(instances):
    """Three models half a point beyond the margin in one of two outcomes; scores of zeros, ones
    and between. The rate of a look is that of any of its models. Small looks would clear by a gap
    far below zero, and do not."""
    rng, looks, models = np.random.default_rng(instances), 1_000, 3
    stratum, public = np.repeat([0, 1], instances // 2), np.tile([True, False], instances // 2)
    level = np.array([0.4, 0.7])[stratum][:, None, None] + (MARGIN + 0.005) * public[:, None, None]
    drawn = rng.random((len(stratum), looks, models), dtype=np.float32)
    scores = np.where(drawn < level - 0.1, 1.0, np.where(drawn < level + 0.1, 0.5, 0.0))
    other = 0.2 + 0.1 * rng.random((len(stratum), looks, models))
    found = clear_models(estimate_gaps(np.stack([scores, other], -1), stratum, public), MARGIN)
    rate = found.cleared.any(axis=1).mean()
    assert rate <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / looks)
    if instances // 2 < 50:
        assert (found.bound < MARGIN).any(axis=1).mean() > rate
    else:
        assert rate > 0.01


def test_a_stratum_of_thousands_has_its_doubts():
    """More allocations of its labels than a float can count."""
    public = np.arange(3000) % 2 == 0
    scores = np.where(public, 0.6, 0.4)[:, None, None] + np.arange(3000)[:, None, None] % 7 / 10
    found = find_doubts(scores, np.zeros(3000, dtype=int), public, None)
    assert (found.controls.tolist(), found.stratum.tolist()) == (False, [0])

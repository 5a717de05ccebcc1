"""Categories and their controls: by definition, exactly, and under a simulated null."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from analysis.plan.sensitivity import contrast_key_with_static, max_t_over_categories
from analysis.stats.intervals import estimate_gap
from analysis.stats.permutation import drop_one_armed, max_t, p_values, permute_gaps

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan
DRAWN = {"permutations": 999, "enumerate_up_to": 0, "seed": 5}


def arms(strata=4, size=16):
    return np.repeat(np.arange(strata), 2 * size), np.tile([True, False], strata * size)


def by_definition(values, stratum, public):
    """Step-down max-T over the columns of one model, all allocations, plain Python."""
    places = [np.flatnonzero(stratum == h) for h in np.unique(stratum)]
    picks = [combinations(own, int(public[own].sum())) for own in places]
    gaps = []
    for pick in product(*picks):
        chosen = np.isin(np.arange(len(public)), np.concatenate(pick))
        gaps.append(
            np.mean(
                [values[o][chosen[o]].mean(0) - values[o][~chosen[o]].mean(0) for o in places], 0
            )
        )
    z = np.array(gaps) / np.std(gaps, axis=0)
    seen = np.mean(
        [values[o][public[o]].mean(0) - values[o][~public[o]].mean(0) for o in places], 0
    )
    seen = seen / np.std(gaps, axis=0)
    order, adjusted, so_far = np.argsort(-seen), np.zeros(len(seen)), 0.0
    for place, c in enumerate(order):
        largest = z[:, order[place:]].max(axis=1)
        so_far = max(so_far, float(np.mean(largest >= seen[c] - 1e-9)))
        adjusted[c] = so_far
    return adjusted


@pytest.mark.parametrize("seed", range(4))
def test_adjusted_p_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    stratum, public = np.repeat([0, 1], 4), np.array([1, 1, 0, 0, 1, 0, 0, 0], bool)
    values = rng.integers(0, 5, (8, 2, 3)) / 4 + 0.3 * public[:, None, None] * rng.random(3)
    _, p, adjusted, _ = max_t_over_categories(
        values, stratum, public, permutations=1, enumerate_up_to=100, seed=0
    )
    for m in range(2):
        expected = by_definition(values[:, m], stratum, public)
        np.testing.assert_allclose(adjusted[m], expected, atol=1e-12)
        assert adjusted[m].min() == pytest.approx(expected.min())
    assert (p <= adjusted + 1e-12).all()


def test_one_inflated_category_is_named_and_the_others_are_not():
    rng = np.random.default_rng(1)
    stratum, public = arms()
    values = rng.normal(0.5, 0.1, (128, 2, 4))
    values[public, 0, 2] += 0.15
    gaps, _, adjusted, _ = max_t_over_categories(values, stratum, public, **DRAWN)
    assert adjusted[0, 2] == 0.001
    assert np.delete(adjusted[0], 2).min() > 0.05
    assert adjusted[1].min() > 0.05
    assert gaps[0, 2] == pytest.approx(0.15, abs=0.05)


def test_a_category_of_some_strata_is_averaged_over_those():
    rng = np.random.default_rng(2)
    stratum, public = arms()
    values = rng.normal(0.5, 0.1, (128, 1, 3))
    values[:, 0, 1] += 0.1 * public
    values[stratum >= 2, 0, 1] = NAN  # not in these tasks
    values[(stratum == 1) & public, 0, 1] = NAN  # lost in one arm: no comparison here
    values[:, 0, 2] = NAN
    gaps, p, adjusted, _ = max_t_over_categories(values, stratum, public, **DRAWN)
    own = stratum == 0
    assert drop_one_armed(values, stratum, public)[1].tolist() == [[4, 1, 0]]
    alone = estimate_gap(values[own, 0, 1], stratum[own], public[own])
    assert gaps[0, 1] == pytest.approx(alone.gap)
    assert np.isnan(gaps[0, 2])
    assert p[0, 2] == adjusted[0, 2] == 1.0
    alone = max_t(permute_gaps(values[own][:, :, [1]], stratum[own], public[own], **DRAWN))
    assert p[0, 1] == pytest.approx(p_values(alone)[0], abs=0.03)  # other draws


def test_dropping_leaves_what_can_be_compared():
    values = np.array([0.1, 0.2, 0.3, NAN])[:, None, None]
    public = np.array([True, False, True, False])
    held, strata = drop_one_armed(values, np.array([0, 0, 1, 1]), public)
    np.testing.assert_array_equal(held[:, 0, 0], [0.1, 0.2, NAN, NAN])
    assert strata.tolist() == [[1]]
    assert values[2, 0, 0] == 0.3


def test_size_over_categories_that_go_together():
    """Any of four correlated categories is called in 5 % of clean models, not in 15 %."""
    rng = np.random.default_rng(3)
    stratum, public = arms(2, 8)
    values = rng.normal(0, 1, (32, 800, 1)) + rng.normal(0, 1, (32, 800, 4))
    keys = {"permutations": 199, "enumerate_up_to": 0, "seed": 9}
    _, p, adjusted, _ = max_t_over_categories(values, stratum, public, **keys)
    assert 0.035 <= (adjusted.min(axis=1) <= 0.05).mean() <= 0.065
    assert (p.min(axis=1) <= 0.05).mean() > 0.1


def test_key_against_static():
    """A leak raises what needs the key; a fault of the harness raises both, and the control
    tells; a criterion that no instance has leaves no claim."""
    rng = np.random.default_rng(4)
    stratum, public = arms()
    key, static = rng.normal(0.5, 0.1, (128, 3)), rng.normal(0.7, 0.1, (128, 3))
    key[public, 0] += 0.1
    key[public, 1] += 0.1
    static[public, 1] += 0.1
    static[:, 2] = NAN
    contrasts, _ = contrast_key_with_static(key, static, stratum, public, **DRAWN)
    leak, fault, none = (list(contrast.values()) for contrast in contrasts)
    gaps, p = zip(*leak, strict=True)
    assert (p[0], p[1] > 0.05, p[2]) == (0.001, True, 0.001)
    assert gaps[2].gap == pytest.approx(gaps[0].gap - gaps[1].gap)
    assert gaps[2].interval[0] > 0
    assert fault[1][1] == 0.001
    assert fault[2][1] > 0.05
    assert none[1:] == [(None, 1.0)] * 2


def test_the_control_looks_both_ways():
    stratum, public = arms()
    static = np.random.default_rng(6).normal(0.7, 0.1, (128, 1)) - 0.1 * public[:, None]
    (found,), _ = contrast_key_with_static(static, static, stratum, public, **DRAWN)
    assert found["static"][1] == 0.001
    gap, p = found["answer key minus static"]
    assert (gap.gap, p) == (0, 1.0)

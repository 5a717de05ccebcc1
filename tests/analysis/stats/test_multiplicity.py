"""Adjusted p-values against statsmodels and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.stats.permutation import Statistics, holm, p_values, westfall_young

pytestmark = pytest.mark.filterwarnings("error")


def test_holm_reference():
    adjusted = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02], atol=1e-15)


@settings(max_examples=10, deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_is_statsmodels(p):
    expected = multipletests(p, method="holm")[1]
    np.testing.assert_allclose(holm(np.array(p)), expected, atol=1e-12)


def statistics(models, rows=400, seed=0, exact=False):
    rng = np.random.default_rng(seed)
    permuted = rng.normal(0, 1, (rows, models)) + rng.normal(0, 1, (rows, 1))
    return Statistics(rng.normal(1, 1, models), permuted, exact)


def by_definition(held):
    """Westfall and Young's step-down, one model at a time."""
    order = sorted(range(len(held.observed)), key=lambda m: -held.observed[m])
    adjusted, so_far = {}, 0.0
    for place, model in enumerate(order):
        largest = held.permuted[:, order[place:]].max(axis=1)
        hits = int((largest >= held.observed[model] - 1e-9).sum())
        so_far = max(so_far, hits / len(largest) if held.exact else (hits + 1) / (len(largest) + 1))
        adjusted[model] = so_far
    return [adjusted[m] for m in range(len(order))]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("models", [1, 2, 7])
def test_westfall_young_is_its_definition(models, exact):
    held = statistics(models, seed=models, exact=exact)
    np.testing.assert_allclose(westfall_young(held), by_definition(held), atol=1e-15)


def test_one_model_is_not_adjusted_and_no_p_is_made_smaller():
    one = statistics(1)
    assert westfall_young(one) == pytest.approx(p_values(one))
    many = statistics(6)
    assert (westfall_young(many) >= p_values(many) - 1e-15).all()


def test_models_that_are_one_model_cost_nothing():
    """Where Bonferroni would pay thirtyfold, the maximum over copies is the copy."""
    one = statistics(1)
    copies = Statistics(np.repeat(one.observed, 30), np.repeat(one.permuted, 30, axis=1), False)
    np.testing.assert_allclose(westfall_young(copies), np.repeat(p_values(one), 30))

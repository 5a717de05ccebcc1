"""Leaving out and burning: against the whole test on what is left, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.plan.sensitivity import compare_burned, leave_one_out
from analysis.stats.intervals import estimate_gap
from analysis.stats.permutation import max_t, p_values, permute_gaps

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan
DRAWN = {"permutations": 3999, "enumerate_up_to": 0, "seed": 5}
ALL = {"permutations": 0, "enumerate_up_to": 20_000, "seed": 5}


def case(seed=0, strata=4, size=16, models=2):
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(strata), 2 * size)
    public = np.tile([True, False], strata * size)
    return rng.normal(0.5, 0.2, (len(stratum), models, 2)), stratum, public


@pytest.mark.parametrize("keys", [DRAWN, ALL])
def test_it_is_the_test_on_what_is_left(keys):
    size = 16 if keys is DRAWN else 2
    values, stratum, public = case(size=size)
    values[public, 0] += 0.07
    values[3, 1] = NAN
    found = leave_one_out(values, stratum, public, stratum, **keys)
    assert [code for code, *_ in found] == [0, 1, 2, 3]
    for h, gaps, p, _ in found:
        own = stratum != h
        whole = permute_gaps(values[own], stratum[own], public[own], **keys)
        np.testing.assert_allclose(gaps, whole.observed[:, 0], atol=1e-12)
        atol = 0.02 if keys is DRAWN else 1e-15
        np.testing.assert_allclose(p, p_values(max_t(whole)), atol=atol)


def test_a_gap_of_one_task_alone_is_found_out():
    values, stratum, public = case(1, models=1)
    values[public & (stratum == 2)] += 0.5
    ps = np.array([p[0] for _, _, p, _ in leave_one_out(values, stratum, public, stratum, **DRAWN)])
    assert np.delete(ps, 2).max() < 0.01
    assert ps[2] == ps.max() > 0.05


def test_tasks_of_unlike_numbers_of_strata_keep_strata_alike():
    values, stratum, public = case(2)
    task = np.array([0, 0, 0, 1])[stratum]
    drawn = {**DRAWN, "permutations": 19_999}
    found = leave_one_out(values, stratum, public, task, **drawn)
    for (_, gaps, p, _), own in zip(found, [task == 1, task == 0], strict=True):
        whole = permute_gaps(values[own], stratum[own], public[own], **drawn)
        np.testing.assert_allclose(gaps, whole.observed[:, 0], atol=1e-12)
        np.testing.assert_allclose(p, p_values(max_t(whole)), atol=0.02)
    three = leave_one_out(values, stratum, public, np.array([0, 0, 1, 2])[stratum], **DRAWN)
    own = stratum != 2
    np.testing.assert_allclose(
        three[1][1],
        permute_gaps(values[own], stratum[own], public[own], **DRAWN).observed[:, 0],
        atol=1e-12,
    )


def test_the_last_stratum_is_not_left_out():
    values, stratum, public = case(strata=1)
    with pytest.raises(AnalysisError, match="nothing"):
        leave_one_out(values, stratum, public, stratum, **DRAWN)


def burned_half(public):
    """Every other private seed."""
    burned = np.zeros_like(public)
    burned[np.flatnonzero(~public)[::2]] = True
    return burned


def test_seeds_that_leaked_score_higher_than_those_that_did_not():
    values, stratum, public = case(3)
    burned = burned_half(public)
    values[burned, 0] += 0.3
    values[burned, 1] -= 0.3  # the other way is no leak
    found = compare_burned(values, stratum, public, burned, **DRAWN)
    assert (found.p[0], found.p_adjusted[0]) == (1 / 4000, 1 / 4000)
    assert found.p[1] > 0.9
    assert (found.burned, found.unexposed) == (32, 32)
    private = ~public
    expected = estimate_gap(values[private, 0, 0], stratum[private], burned[private])
    assert found.gaps[0] == expected


def test_strata_without_both_kinds_are_left_out():
    values, stratum, public = case(4)
    burned = burned_half(public) & (stratum == 1)
    burned |= ~public & (stratum == 3)
    found = compare_burned(values, stratum, public, burned, **DRAWN)
    assert (found.burned, found.unexposed) == (8, 8)
    assert compare_burned(values, stratum, public, ~public & (stratum == 3), **DRAWN) is None
    assert compare_burned(values, stratum, public, np.zeros_like(public), **DRAWN) is None
    with pytest.raises(AnalysisError, match="private"):
        compare_burned(values, stratum, public, public, **DRAWN)


def test_a_model_without_scores_has_no_burn_gap():
    values, stratum, public = case(5)
    values[:, 1] = NAN
    found = compare_burned(values, stratum, public, burned_half(public), **DRAWN)
    assert found.gaps[0] is not None
    assert found.gaps[1] is None
    assert found.p[1] == 1.0

"""Negative controls: they agree, disagree or cannot tell, by the sizes of gap and study."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.plan.negative_controls import (
    AGREES,
    DISAGREES,
    NOT_RUN,
    UNINFORMATIVE,
    ControlSettings,
    pooled_control,
)
from analysis.stats.intervals import estimate_gap

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan
DRAWN = ControlSettings({"permutations": 999, "enumerate_up_to": 0, "seed": 5})


def case(seed=0, strata=4, size=64, models=3, sd=0.2):
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(strata), 2 * size)
    public = np.tile([True, False], strata * size)
    level = np.linspace(0.3, 0.7, models)[:, None]  # models differ; that is no gap
    return rng.normal(0, sd, (len(stratum), models, 2)) + level, stratum, public


def test_clean_models_agree():
    values, stratum, public = case()
    found = pooled_control(values, stratum, public, DRAWN)
    assert (found.state, found.reason) == (AGREES, "")
    expected = estimate_gap(values[:, :, 0].mean(axis=1), stratum, public)
    assert found.gap == pytest.approx(expected.gap)
    assert found.interval90[1] == pytest.approx(expected.upper)
    assert found.se == pytest.approx(expected.se)


@pytest.mark.parametrize("shift", [0.08, -0.08])
def test_a_gap_of_either_sign_disagrees(shift):
    values, stratum, public = case(1)
    values[public] += shift
    found = pooled_control(values, stratum, public, DRAWN)
    assert (found.state, found.p) == (DISAGREES, 0.001)
    assert found.reason.startswith(f"the arms differ by {'+' if shift > 0 else '−'}")
    assert found.reason.endswith("points (p ≤ 0.0010)")  # no permutation is as far out
    assert found.p_floor == 0.001


def test_too_few_seeds_prove_nothing():
    values, stratum, public = case(2, size=4)
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.p > 0.05
    assert found.state == UNINFORMATIVE
    assert found.reason.startswith("too few instances to tell: the 90 % interval is")
    assert pooled_control(values, stratum, public, replace(DRAWN, margin=0.5)).state == AGREES
    sure = replace(DRAWN, margin=0.5, level=1.0)
    assert pooled_control(values, stratum, public, sure).state == DISAGREES


@pytest.mark.parametrize("size", [2, 8, 64, 256])
def test_no_size_of_study_makes_a_large_p_disagree(size):
    """A clean instrument agrees where the study is large, and is uninformative where it is small:
    the p alone shows a fault."""
    states = []
    for seed in range(12):
        values, stratum, public = case(seed, size=size)
        drawn = replace(DRAWN, draws={**DRAWN.draws, "permutations": 99})
        found = pooled_control(values, stratum, public, drawn)
        assert (found.state == DISAGREES) == (found.p < 0.05)
        low, high = found.interval90
        assert (found.state == AGREES) == (found.p >= 0.05 and -0.05 < low <= high < 0.05)
        states.append(found.state)
    assert states.count(DISAGREES) <= 3
    assert states.count(UNINFORMATIVE if size < 10 else AGREES) >= 9


def test_a_small_gap_that_a_large_study_is_sure_of_disagrees_inside_the_margin():
    values, stratum, public = case(3, size=256, sd=0.05)
    values[public] += 0.02
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.interval90[1] < 0.05
    assert found.state == DISAGREES


def test_what_does_not_vary_at_all_has_no_gap():
    """As the change of a deterministic model that is run again: no spread, and none is needed."""
    values, stratum, public = case(4)
    for held in (np.zeros_like(values), np.full_like(values, 0.4)):
        found = pooled_control(held, stratum, public, DRAWN)
        assert (found.state, found.p, found.se) == (AGREES, 1.0, None)
        assert found.gap == pytest.approx(0)


def test_a_good_models_missing_scores_make_no_gap():
    """The best model lost its public runs in half of the seeds: a plain mean would fall."""
    values, stratum, public = case(3, sd=0.02)
    lost = public & (np.arange(len(public)) % 4 == 0)
    values[lost, 2] = NAN
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.state == AGREES
    assert abs(found.gap) < 0.01
    assert estimate_gap(np.nanmean(values[:, :, 0], axis=1), stratum, public).gap < -0.03


def test_a_control_without_scores_in_an_arm_was_not_run():
    values, stratum, public = case(4)
    for held in (values[:, :0], np.where(((stratum == 1) & public)[:, None, None], NAN, values)):
        found = pooled_control(held, stratum, public, DRAWN)
        assert (found.state, found.gap, found.p) == (NOT_RUN, None, 1.0)
        assert found.reason == "an arm of a stratum has no scored instance"


def test_a_clean_control_disagrees_about_one_time_in_twenty():
    stratum, public = np.repeat([0, 1], 32), np.tile([True, False], 32)
    rng, failed = np.random.default_rng(6), 0
    for run in range(300):
        values = rng.normal(0, 0.1, (64, 2, 2))
        found = pooled_control(
            values,
            stratum,
            public,
            ControlSettings({"permutations": 99, "enumerate_up_to": 0, "seed": run}, margin=1.0),
        )
        failed += found.state == DISAGREES
    assert 0.025 <= failed / 300 <= 0.08

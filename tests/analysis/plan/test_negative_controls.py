"""Negative controls: they pass what is clean, and fail what is not, by its size and its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.plan.negative_controls import (
    ControlSettings,
    pool_models,
    pooled_control,
    regrade_drift,
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


def test_clean_models_pass():
    values, stratum, public = case()
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.passed
    assert found.reasons == ()
    mean = values[:, :, 0].mean(axis=1)
    expected = estimate_gap(mean, stratum, public)
    assert found.gap == pytest.approx(expected.gap)
    assert found.interval90[1] == pytest.approx(expected.upper)


@pytest.mark.parametrize("shift", [0.08, -0.08])
def test_a_gap_of_either_sign_fails_both_tests(shift):
    values, stratum, public = case(1)
    values[public] += shift
    found = pooled_control(values, stratum, public, DRAWN)
    assert (found.passed, found.p) == (False, 0.001)
    assert len(found.reasons) == 2
    assert "two-sided p = 0.0010" in found.reasons[0]


def test_too_few_seeds_prove_nothing():
    values, stratum, public = case(2, size=4)
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.p > 0.05
    assert not found.passed
    assert "does not lie inside ±5" in found.reasons[0]
    assert pooled_control(values, stratum, public, replace(DRAWN, margin=0.5)).passed
    assert not pooled_control(values, stratum, public, replace(DRAWN, margin=0.5, level=1.0)).passed


def test_a_good_models_missing_scores_make_no_gap():
    """The best model lost its public runs in half of the seeds: a plain mean would fall."""
    values, stratum, public = case(3, sd=0.02)
    lost = public & (np.arange(len(public)) % 4 == 0)
    values[lost, 2] = NAN
    found = pooled_control(values, stratum, public, DRAWN)
    assert found.passed
    assert abs(found.gap) < 0.01
    plain = np.nanmean(values[:, :, 0], axis=1)
    assert estimate_gap(plain, stratum, public).gap < -0.03
    assert np.isnan(pool_models(np.full((8, 2, 1), NAN), np.zeros(8, int))).all()


def test_a_control_that_was_not_run_has_not_passed():
    values, stratum, public = case(4)
    for held in (values[:, :0], np.where(((stratum == 1) & public)[:, None, None], NAN, values)):
        found = pooled_control(held, stratum, public, DRAWN)
        assert (found.passed, found.gap, found.p) == (False, None, 1.0)
        assert len(found.reasons) == 1


def test_a_clean_control_fails_about_one_time_in_twenty():
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
        failed += not found.passed
    assert 0.025 <= failed / 300 <= 0.08


def test_a_judge_that_moved_alike_in_both_arms_has_not_drifted():
    values, stratum, public = case(7)
    before = values[:, :, 0]
    rng = np.random.default_rng(7)
    after = before + 0.06 + rng.normal(0, 0.05, before.shape)
    after[::7, 1] = NAN
    found = regrade_drift(before, after, stratum, public, DRAWN)
    assert found.passed
    drifted = regrade_drift(before, after + 0.06 * public[:, None], stratum, public, DRAWN)
    assert (drifted.passed, drifted.p) == (False, 0.001)
    assert drifted.gap == pytest.approx(0.06, abs=0.01)


def test_the_same_grades_again_are_no_drift_at_all():
    before = case(8)[0][:, :, 0]
    _, stratum, public = case(8)
    for after in (before, before + 0.1):
        found = regrade_drift(before, after, stratum, public, DRAWN)
        assert (found.passed, found.p) == (True, 1.0)
        assert found.gap == pytest.approx(0, abs=1e-12)
    none = regrade_drift(before, np.full_like(before, NAN), stratum, public, DRAWN)
    assert (none.passed, none.gap) == (False, None)
    half = regrade_drift(before, np.where(public[:, None], NAN, before), stratum, public, DRAWN)
    assert not half.passed
    assert "graded twice" in half.reasons[0]

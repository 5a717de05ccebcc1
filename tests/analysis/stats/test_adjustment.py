"""The adjustment against statsmodels' ANCOVA, by its promises, and by what it saves; bounds on what
lost runs could hide, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.errors import AnalysisError
from analysis.stats.adjustment import calibrate, centre_within, control_means, fit_slope, unadjusted
from analysis.stats.intervals import estimate_gap
from analysis.stats.permutation import max_t, p_values, permute_gaps

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan


def case(seed=0, strata=3, size=20, models=2, slope=0.6):
    """Seeds whose difficulty is the same for all models, in strata of unlike level."""
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(strata), size)
    hard = rng.normal(0, 0.1, len(stratum))
    x = 0.3 + 0.2 * stratum + hard + rng.normal(0, 0.05, len(stratum))
    y = slope * hard[:, None, None] + rng.normal(0, 0.05, (len(stratum), models, 2))
    return y + 0.1 * stratum[:, None, None], np.stack([x, 2 * x], 1), stratum


def test_beta_is_that_of_a_regression_with_an_intercept_for_each_stratum():
    values, x, stratum = case()
    found = fit_slope(values, x, stratum)
    dummies = (stratum[:, None] == np.arange(3)).astype(float)
    for m in range(2):
        for o in range(2):
            fit = sm.OLS(values[:, m, o], np.column_stack([dummies, x[:, o]])).fit()
            none = sm.OLS(values[:, m, o], dummies).fit()
            assert found.beta[m, o] == pytest.approx(fit.params[-1])
            assert found.rho2[m, o] == pytest.approx(1 - fit.ssr / none.ssr)
            np.testing.assert_allclose(
                centre_within(found.residuals[:, m, o], stratum), fit.resid, atol=1e-12
            )


def test_a_missing_score_stays_missing_and_an_unknown_covariate_changes_nothing():
    values, x, stratum = case()
    values[3, 0] = NAN
    x[5] = NAN
    found = fit_slope(values, x, stratum)
    assert np.isnan(found.residuals[3, 0]).all()
    assert np.isnan(found.residuals).sum() == 2
    np.testing.assert_array_equal(found.residuals[5], values[5])
    kept = np.delete(np.arange(len(stratum)), [3, 5])
    own = fit_slope(values[kept], x[kept], stratum[kept])
    np.testing.assert_allclose(found.beta[0], own.beta[0])


@pytest.mark.parametrize("x", [np.full((60, 2), 0.4), np.full((60, 2), NAN)])
def test_a_covariate_that_says_nothing_leaves_scores_alone(x):
    values, _, stratum = case()
    found = fit_slope(values, x, stratum)
    np.testing.assert_array_equal(found.residuals, values)
    assert (found.beta == 0).all()
    assert (found.rho2 == 0).all()
    np.testing.assert_allclose(calibrate(values, x, stratum).residuals, values, atol=1e-12)
    plain = unadjusted(values)
    np.testing.assert_array_equal(plain.residuals, values)
    assert not plain.rho2.any()


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, (12, 2, 1), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN])),
    arrays(float, (12, 1), elements=st.sampled_from([0.0, 0.3, 0.6, 0.9, NAN])),
)
def test_means_stay_and_spread_never_grows(values, x):
    stratum = np.arange(12) % 3
    found = fit_slope(values, x, stratum)
    np.testing.assert_array_equal(np.isnan(found.residuals), np.isnan(values))
    for m in range(2):
        there = ~np.isnan(values[:, m, 0])
        before, after = (
            centre_within(v[:, m, 0], stratum)[there] for v in (values, found.residuals)
        )
        assert after @ after <= before @ before + 1e-12
        assert found.residuals[there, m, 0].sum() == pytest.approx(values[there, m, 0].sum())
    assert ((found.rho2 >= -1e-12) & (found.rho2 <= 1 + 1e-12)).all()


def test_the_adjustment_does_not_know_of_the_arms():
    """So that residuals are permuted like scores: with x the truth, they hold the arm's effect
    and nothing else, and the p is that of the noiseless gap."""
    rng = np.random.default_rng(3)
    stratum, public = np.repeat(np.arange(4), 32), np.tile([True, False], 64)
    x = rng.normal(0.5, 0.2, 128)
    values = (0.5 * x + 0.05 * public + rng.normal(0, 0.02, 128))[:, None, None]
    found = fit_slope(values, x[:, None], stratum)
    keys = {"permutations": 999, "enumerate_up_to": 0, "seed": 1}
    assert p_values(max_t(permute_gaps(found.residuals, stratum, public, **keys)))[0] == 0.001
    before = estimate_gap(values[:, 0, 0], stratum, public)
    after = estimate_gap(found.residuals[:, 0, 0], stratum, public)
    assert after.se < 0.5 * before.se
    assert after.interval[0] < 0.05 < after.interval[1]


@settings(max_examples=20, deadline=None)
@given(st.floats(-3, 3))
def test_how_strongly_difficulty_bears_on_scores_does_not_matter(slope):
    values, x, stratum = case()
    steeper = values + slope * centre_within(x, stratum)[:, None]
    before, after = fit_slope(values, x, stratum), fit_slope(steeper, x, stratum)
    np.testing.assert_allclose(after.residuals, before.residuals, atol=1e-9)
    np.testing.assert_allclose(after.beta, before.beta + slope, atol=1e-9)


def test_control_means_do_not_move_with_the_runs_that_a_model_lacks():
    values = np.array([[[0.2], [0.4]], [[0.6], [NAN]], [[NAN], [NAN]]])
    one = np.zeros(3, dtype=np.int64)
    np.testing.assert_allclose(control_means(values, one)[:, 0], [-0.1, 0.2, NAN])
    assert np.isnan(control_means(values[:, :0], one)).all()
    # A good model that loses runs of one arm alone: the others' level is no gap.
    rng, stratum = np.random.default_rng(7), np.zeros(400, dtype=np.int64)
    runs = np.array([0.9, 0.3, 0.3, 0.3]) + rng.normal(0, 0.05, (400, 4))
    public = np.arange(400) < 200
    runs[:40, 0] = NAN
    x = control_means(runs[:, :, None], stratum)[:, 0]
    assert abs(estimate_gap(x, stratum, public).gap) < 0.01
    assert abs(estimate_gap(np.nanmean(runs, axis=1), stratum, public).gap) > 0.02


def test_a_shift_of_one_arm_in_all_models_is_taken_off_whatever_its_size():
    """The slope is 1: a fault of the instrument in one arm moves scores and controls alike."""
    rng = np.random.default_rng(4)
    values, x, stratum = case()
    public = rng.permutation(np.arange(len(stratum)) % 2 == 0)
    fault = 0.1 * public[:, None]
    sound, faulty = (
        calibrate(values, x, stratum),
        calibrate(values + fault[:, None], x + fault, stratum),
    )

    def gaps(residuals):
        return [estimate_gap(residuals[:, m, 0], stratum, public).gap for m in range(2)]

    np.testing.assert_allclose(gaps(faulty.residuals), gaps(sound.residuals), atol=1e-12)
    fitted = fit_slope(values + fault[:, None], x + fault, stratum).residuals
    assert min(np.subtract(gaps(fitted), gaps(fit_slope(values, x, stratum).residuals))) > 0.01


def test_calibrated_scores_keep_their_level_and_say_what_calibrating_costs():
    values, x, stratum = case()
    found = calibrate(values, x, stratum)
    np.testing.assert_allclose(found.residuals, values - centre_within(x, stratum)[:, None])
    assert (found.beta == 1).all()
    noise = np.random.default_rng(5).normal(0, 0.3, x.shape)
    assert (calibrate(values, noise, stratum).rho2 < 0).all(), "noise was taken off, not saved"


def test_each_model_may_have_a_covariate_of_its_own():
    values, x, stratum = case(models=3)
    own = np.stack([x, 1 - x, x**2], axis=1)
    found = fit_slope(values, own, stratum)
    for m in range(3):
        one = fit_slope(values[:, [m]], own[:, m], stratum)
        np.testing.assert_allclose(found.residuals[:, m], one.residuals[:, 0])


def test_shapes_that_do_not_fit_are_refused():
    values, x, stratum = case()
    with pytest.raises(AnalysisError, match="covariate of shape"):
        fit_slope(values, x[:5], stratum)

"""Models through statsmodels: shipped data, what they must agree with, what they must own up to."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from analysis.errors import AnalysisError
from analysis.stats.intervals import estimate_gap
from analysis.stats.mixed_models import fit_seeds, gee_gap, mixed_gap, shrink_gaps
from tests.analysis.gee import fit_gee
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")

NAN = np.nan


def runs(seed=0, strata=4, size=16, replicates=1, gap=0.0, between=0.15, within=0.15):
    """Rows of seeds in strata of unlike level: scores, seed, stratum, public."""
    rng = np.random.default_rng(seed)
    n = strata * 2 * size
    stratum, public = np.repeat(np.arange(strata), 2 * size), np.tile([True, False], n // 2)
    own = 0.4 + 0.05 * stratum + gap * public + rng.normal(0, between, n)
    unit = np.repeat(np.arange(n), replicates)
    scores = np.clip(own[unit] + rng.normal(0, within, len(unit)), 0, 1)
    return scores, unit, stratum[unit], public[unit]


def test_the_shipped_data():
    """statsmodels' gee_logistic_1.csv, which R's gee gave its numbers for."""
    table = files("statsmodels.genmod.tests.results").joinpath("gee_logistic_1.csv")
    rows = np.array([line.split(",") for line in table.read_text().split()], dtype=float)
    response, cluster = rows[:, 1], rows[:, 0].astype(int)
    design = np.column_stack([np.ones(len(rows)), rows[:, 2:]])
    fit = fit_gee(response, design, cluster, cov_type="robust")
    np.testing.assert_allclose(fit.parameters, [0.01673, 1.13039, -1.86896, 1.09398], atol=2e-5)
    se = np.sqrt(np.diag(fit.covariance))
    np.testing.assert_allclose(se, [0.12729, 0.16673, 0.19243, 0.17314], atol=2e-5)
    wider = fit_gee(response, design, cluster)
    assert (np.sqrt(np.diag(wider.covariance)) > se).all()


@pytest.mark.parametrize("draw", range(4))
def test_the_closed_form_is_statsmodels_gee(draw):
    rng = np.random.default_rng(draw)
    seeds, strata = 40, 3
    stratum, public = np.arange(seeds) % strata, (np.arange(seeds) // strata) % 2 == 0
    cluster = np.repeat(np.arange(seeds), rng.integers(1, 5, seeds))
    rng.shuffle(cluster)
    levels = [(stratum == h) * 1.0 for h in range(strata)]
    design = np.column_stack([*levels, public * 1.0])[cluster]
    chance = 1 / (1 + np.exp(-rng.normal(0.3, 1, seeds)))
    scores = rng.binomial(12, chance[cluster]) / 12
    ours, theirs = fit_seeds(scores, design, cluster), fit_gee(scores, design, cluster)
    np.testing.assert_allclose(ours.parameters, theirs.parameters, rtol=1e-6)
    np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-5)


def test_one_stratum_of_a_gee_is_the_gap_of_means_and_nearly_welch():
    scores, seed, stratum, public = runs(1, strata=1, size=30, gap=0.1)
    found, welch = gee_gap(scores, seed, stratum, public), estimate_gap(scores, stratum, public)
    assert found.gap == pytest.approx(welch.gap, abs=1e-7)
    # Mancl and DeRouen divide residuals by 1 − 1/n, Welch their squares: √(30/29) apart.
    assert found.se == pytest.approx(welch.se * np.sqrt(30 / 29), rel=1e-4)
    assert found.notes == ()


def test_a_gee_knows_that_runs_of_a_seed_go_together():
    scores, seed, stratum, public = runs(2, size=12, replicates=4, within=0.02)
    found = gee_gap(scores, seed, stratum, public)
    as_if = gee_gap(scores, np.arange(len(seed)), stratum, public)
    assert found.gap == pytest.approx(as_if.gap)
    assert found.se > 1.7 * as_if.se
    shuffled = np.random.default_rng(0).permutation(len(seed))
    again = gee_gap(scores[shuffled], seed[shuffled], stratum[shuffled], public[shuffled])
    assert again.se == pytest.approx(found.se)


def test_a_true_gap_is_found_and_bounded():
    found = gee_gap(*runs(3, size=32, gap=0.12))
    assert found.p < 0.001
    assert found.interval[0] < 0.12 < found.interval[1]
    lower = gee_gap(*runs(3, size=32, gap=-0.12))
    assert lower.p > 0.999
    assert lower.gap < 0


def test_a_stratum_that_everybody_passes_counts_as_no_gap():
    scores, seed, stratum, public = runs(4, strata=2, size=20, gap=0.1)
    scores = np.where(stratum == 1, 1.0, scores)
    found = gee_gap(scores, seed, stratum, public)
    own = stratum == 0
    alone = gee_gap(scores[own], seed[own], stratum[own], public[own])
    assert found.gap == pytest.approx(alone.gap / 2)
    assert found.p == pytest.approx(alone.p)


@pytest.mark.parametrize(("scores", "why"), cases(__file__, "no_estimate"))
def test_what_a_gee_cannot_fit_is_told_and_not_raised(scores, why):
    n = len(scores)
    found = gee_gap(
        np.array(scores), np.arange(n), np.zeros(n, int), np.tile([True, False], n // 2)
    )
    assert (found.gap, found.se, found.interval, found.p) == (None,) * 4
    assert why in found.notes[0]


@pytest.mark.parametrize("estimate", [gee_gap, mixed_gap])
def test_missing_scores_are_for_the_caller_to_leave_out(estimate):
    scores, seed, stratum, public = runs(12, replicates=2)
    scores[3] = NAN
    with pytest.raises(AnalysisError, match="without NaN"):
        estimate(scores, seed, stratum, public)


def test_a_design_that_does_not_fit_is_refused_by_the_fit():
    with pytest.raises(AnalysisError, match="GEE"):
        fit_seeds(np.array([1.0, 0.0]), np.ones((2, 1)) * NAN, np.arange(2))


@pytest.mark.slow
def test_size_of_the_bias_reduced_gee_at_four_seeds():
    """Where the plain sandwich gives .098, the specification has .042 (section 3)."""
    p = [gee_gap(*runs(1000 + b, size=4)).p for b in range(600)]
    two_sided = np.array([2 * min(x, 1 - x) for x in p if x is not None])
    assert len(two_sided) == 600
    assert 0.02 <= (two_sided <= 0.05).mean() <= 0.065


def test_a_balanced_mixed_model_is_the_analysis_of_seed_means():
    """One stratum, three runs of each seed: REML's gap and SE are those of the means, pooled."""
    scores, seed, stratum, public = runs(5, strata=1, size=25, replicates=3, gap=0.05)
    found = mixed_gap(scores, seed, stratum, public)
    means, arm = scores.reshape(-1, 3).mean(axis=1), public[::3]
    t = stats.ttest_ind(means[arm], means[~arm])
    assert found.gap == pytest.approx(means[arm].mean() - means[~arm].mean(), abs=1e-6)
    assert found.se == pytest.approx(found.gap / t.statistic, rel=1e-3)
    assert found.notes == ()


def test_a_mixed_model_needs_repeats_and_spread():
    assert "two runs" in mixed_gap(*runs(6)).notes[0]
    _, seed, stratum, public = runs(6, replicates=2)
    constant = mixed_gap(np.full(len(seed), 0.5), seed, stratum, public)
    assert (constant.gap, constant.notes) == (None, ("scores without spread",))


def test_seeds_that_do_not_differ_are_told_as_a_boundary():
    """Runs that lie further apart than seeds: the seeds' variance is 0, the rest least squares."""
    _, seed, stratum, public = runs(7, size=20, replicates=2)
    rng = np.random.default_rng(7)
    scores = 0.5 + 0.1 * np.tile([1, -1], len(seed) // 2) + rng.normal(0, 0.01, len(seed))
    found = mixed_gap(scores, seed, stratum, public)
    assert found.notes == ("no variance between seeds was found: least squares of runs",)
    dummies = (stratum[:, None] == np.arange(4)).astype(float)
    plain = sm.OLS(scores, np.column_stack([dummies, public])).fit()
    assert found.gap == pytest.approx(plain.params[-1])
    assert found.se == pytest.approx(plain.bse[-1], rel=1e-4)


def test_unbalanced_replicates_are_statsmodels_own_search():
    scores, seed, stratum, public = runs(10, strata=2, size=12, replicates=3)
    own = np.random.default_rng(10).random(len(seed)) < 0.6
    found = mixed_gap(scores[own], seed[own], stratum[own], public[own])
    design = np.column_stack([stratum == 0, stratum == 1, public])[own].astype(float)
    theirs = sm.MixedLM(10 * scores[own], design, groups=seed[own]).fit()
    assert found.gap == pytest.approx(theirs.fe_params[-1] / 10, rel=1e-4)
    assert found.se == pytest.approx(theirs.bse_fe[-1] / 10, rel=1e-3)
    assert found.notes == ()


def test_shrinkage_is_paule_and_mandels():
    rng = np.random.default_rng(8)
    ses = rng.uniform(0.01, 0.05, 12)
    gaps = rng.normal(0.03, 0.04, 12) + rng.normal(0, ses)
    (shrunk, errors), theirs = shrink_gaps(gaps, ses), combine_effects(gaps, ses**2, method_re="pm")
    mu, mu_se, keep = (
        theirs.mean_effect_re,
        theirs.sd_eff_w_re,
        theirs.tau2 / (theirs.tau2 + ses**2),
    )
    np.testing.assert_allclose(shrunk, keep * gaps + (1 - keep) * mu, rtol=1e-4)
    np.testing.assert_allclose(errors, np.hypot(np.sqrt(keep) * ses, (1 - keep) * mu_se), rtol=1e-4)


def test_gaps_no_further_apart_than_their_errors_become_one():
    gaps, errors = shrink_gaps(np.array([0.02, 0.03, 0.025]), np.full(3, 0.05))
    np.testing.assert_allclose(gaps, 0.025)
    np.testing.assert_allclose(errors, 0.05 / np.sqrt(3))


def test_exact_gaps_are_left_alone_and_unknown_ones_out():
    gaps, errors = shrink_gaps(np.array([0.0, 0.2, 0.5]), np.array([1e-6, 1e-6, NAN]))
    np.testing.assert_allclose(gaps, [0.0, 0.2, NAN], atol=1e-6)
    assert np.isnan(errors[2])
    assert np.isnan(shrink_gaps(np.array([0.1, 0.2]), np.array([0.1, NAN]))).all()


def test_shrinkage_errs_less_than_the_gaps_themselves():
    rng, plain, drawn = np.random.default_rng(9), 0.0, 0.0
    for _ in range(50):
        truth = rng.normal(0.02, 0.03, 12)
        seen = truth + rng.normal(0, 0.04, 12)
        plain += ((seen - truth) ** 2).sum()
        drawn += ((shrink_gaps(seen, np.full(12, 0.04))[0] - truth) ** 2).sum()
    assert drawn < 0.7 * plain

"""What simulations are drawn from is what the specification says, and the plan's test holds its
size there while the tests that it warns of do not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.planning.power import first_rejections
from analysis.stats.intervals import estimate_gap
from analysis.stats.permutation import TOLERANCE, permute_gaps
from benchmarks.statistics.alternative_tests import (
    arms_of,
    article_interval,
    bayes_mixed,
    cluster_robust,
    degrees,
    logit_gee,
    pooled_criteria,
    runs_as_independent,
    satterthwaite,
    welch_pooled,
)
from benchmarks.statistics.simulate_process import (
    REGIMES,
    TEMPLATES,
    Design,
    Effect,
    Simulated,
    moments,
    simulate,
    simulate_looks,
    task_means,
)

A, C = REGIMES["A"], REGIMES["C"]
REPLICATIONS = 2000  # the gates' Monte-Carlo SE at .05 is .005
LD_OBF = (4.87688, 3.35701, 2.68028, 2.28982, 2.03103)  # five looks, one-sided .025 (section 6)
BATCH = 200  # replications that share their permutations


def test_templates_have_the_articles_sizes() -> None:
    criteria = [sum(m.rows for m in template) for template in TEMPLATES]
    assert all(7 <= len(template) <= 9 for template in TEMPLATES)
    assert (min(criteria), max(criteria)) == (38, 211)
    assert 4 * sum(criteria) == pytest.approx(1900, rel=0.01)  # of a run of 4 seeds


@pytest.mark.parametrize(("name", "share"), [("A", 0.04), ("B", 0.32), ("C", 0.50)])
def test_regimes_have_the_specified_spread_and_shares(name: str, share: float) -> None:
    found = moments(REGIMES[name])
    assert found.sd_score == pytest.approx(0.267, abs=0.001)
    assert found.share == pytest.approx(share, abs=0.005)
    assert 0.16 < found.sd_fraction**2 / 0.24 < 0.22  # about the criteria's ICC


@pytest.mark.parametrize(
    ("name", "low", "high"), [("A", 0.001, 0.007), ("B", 0.11, 0.16), ("C", 0.30, 0.37)]
)
def test_four_runs_of_other_models_save_the_specified_variance(
    name: str, low: float, high: float
) -> None:
    data = simulate(Design(4, 50, covariate_runs=4), REGIMES[name], Effect(), 60, _stream(name))
    assert data.covariate is not None
    x, y = (_centred(v[..., 0]) for v in (data.covariate, data.means))
    assert low < (x * y).mean() ** 2 / (x * x).mean() / (y * y).mean() < high


def test_quadrature_agrees_with_what_is_drawn() -> None:
    data = simulate(Design(4, 60, 2), C, Effect(), 100, _stream("moments"))
    first, second = (_centred(data.scores[:, :, run, 0]) for run in (0, 1))
    expected = moments(C)
    assert first.std() == pytest.approx(expected.sd_score, rel=0.02)
    assert (first * second).mean() / first.var() == pytest.approx(expected.share, abs=0.02)
    by_task = data.scores[..., 0].reshape(100, 4, -1).mean(axis=(0, 2))
    np.testing.assert_allclose(by_task, task_means(), atol=0.01)


@pytest.mark.parametrize("kind", ["all", "final", "sparse"])
def test_effects_raise_the_public_arm_by_their_size(kind: str) -> None:
    effect = Effect(kind, 0.1)  # type: ignore[arg-type]  # one of its words
    data = simulate(Design(4, 100), A, effect, 100, _stream(kind))
    gap = satterthwaite(arms_of(data)).gap
    assert gap.mean() == pytest.approx(0.1, abs=0.006)
    fraction = data.means[:, data.public, 1].mean() - data.means[:, ~data.public, 1].mean()
    assert fraction < 0.03 if kind == "final" else fraction == pytest.approx(0.1, abs=0.01)


def test_a_stream_repeats_and_the_private_arm_never_feels_an_effect() -> None:
    clean, again = (simulate(Design(2, 5), A, Effect(), 3, _stream("x")) for _ in range(2))
    np.testing.assert_array_equal(clean.scores, again.scores)
    raised = simulate(Design(1, 5), A, Effect("all", 0.2), 3, _stream("x"))
    np.testing.assert_array_equal(raised.scores[:, ~raised.public], clean.scores[:, 5:10])


def test_looks_share_seeds_or_have_their_own() -> None:
    gaps = np.zeros((3, 2))
    same, x = simulate_looks(
        0.5, looks=3, models=2, per_arm=200, gaps=gaps, replications=20,
        stream=_stream("looks"), covariate_runs=4,
    )  # fmt: skip
    fresh, none = simulate_looks(
        0.5, looks=3, models=2, per_arm=200, gaps=gaps, replications=20,
        stream=_stream("looks"), fresh=True,
    )  # fmt: skip
    assert none is None
    assert x is not None
    assert _correlation(same[:, 0, 0], same[:, 2, 1]) == pytest.approx(0.5, abs=0.03)
    assert _correlation(same[:, 0, 0], x[:, 0]) == pytest.approx(np.sqrt(0.5 * 0.8), abs=0.03)
    assert _correlation(fresh[:, 0, 0], fresh[:, 2, 1]) == pytest.approx(0, abs=0.05)
    assert _correlation(fresh[:, 1, 0], fresh[:, 1, 1]) == pytest.approx(0.5, abs=0.03)


# Each against an outside reference


def test_alternative_tests_agree_with_scipy_and_the_sandwich_written_out() -> None:
    from scipy.stats import chi2_contingency, ttest_ind

    data = simulate(Design(2, 5, 3), C, Effect("all", 0.1), 3, _stream("rivals"))
    scores, total = arms_of(data), (125 + 38) * 15
    for b in range(3):
        passed = [sum(int(p[b, arm].sum()) for p in data.passed)
                  for arm in (slice(0, 5), slice(5, 10))]  # fmt: skip
        table = [passed, [total - each for each in passed]]
        p = chi2_contingency(table, correction=False).pvalue
        assert pooled_criteria(data).p[b] == pytest.approx(p)
        means = scores[b].mean(axis=-1)
        p = ttest_ind(means[:, 0].ravel(), means[:, 1].ravel(), equal_var=False).pvalue
        assert welch_pooled(scores).p[b] == pytest.approx(p)
        assert cluster_robust(scores).se[b] == pytest.approx(_sandwich(scores[b]))


def test_the_gee_over_seeds_is_statsmodels_over_criteria() -> None:
    from tests.analysis.gee import fit_gee

    data = simulate(Design(2, 4), A, Effect("all", 0.1), 2, _stream("gee"))
    place = np.arange(16).repeat([125] * 8 + [38] * 8)
    levels = np.column_stack([np.eye(2)[data.stratum], data.public])[place]
    for b, bias_reduced in ((0, True), (1, False)):
        passed = np.concatenate([p[b].sum(axis=(1, 2)) for p in data.passed])
        first = np.searchsorted(place, place)
        response = (np.arange(len(place)) - first < passed[place]).astype(np.float64)
        kind = "bias_reduced" if bias_reduced else "robust"
        fit = fit_gee(response, levels, place, cov_type=kind)
        ours = logit_gee(data, bias_reduced=bias_reduced)
        assert ours.gap[b] == pytest.approx(fit.parameters[-1], rel=1e-6)
        assert ours.se[b] == pytest.approx(np.sqrt(fit.covariance[-1, -1]), rel=1e-6)


def test_variational_bayes_is_statsmodels_own_and_takes_criteria_for_trials() -> None:
    """Without effect its SD is a fraction of the error that the sandwich finds."""
    import pandas as pd
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    data = simulate(Design(2, 4), A, Effect(), 1, _stream("bayes"))
    rows = [
        (h, f"{h}{seed}", int(seed < 4), float(number < each[0, seed].sum()))
        for h, (each, criteria) in enumerate(zip(data.passed, (125, 38), strict=True))
        for seed in range(8)
        for number in range(criteria)
    ]
    frame = pd.DataFrame(rows, columns=["task", "seed", "public", "passed"])
    formula = "passed ~ 0 + C(task) + public"
    model = BinomialBayesMixedGLM.from_formula(formula, {"seed": "0 + C(seed)"}, frame)
    theirs, ours = model.fit_vb(rng=1), bayes_mixed(data)
    assert ours.gap[0] == pytest.approx(theirs.fe_mean[-1], abs=2e-3)
    assert ours.se[0] == pytest.approx(theirs.fe_sd[-1], rel=0.01)
    assert ours.se[0] < 0.5 * logit_gee(data, bias_reduced=True).se[0]


def _sandwich(scores: NDArray[np.float64]) -> float:
    """Stata's CR1 of the gap over two strata, from the regression itself."""
    y, x = scores.ravel(), np.eye(4)[np.repeat(np.arange(4), 15)]
    bread = np.linalg.inv(x.T @ x)
    residual = y - x @ (bread @ x.T @ y)
    sums = np.array([x[i : i + 3].T @ residual[i : i + 3] for i in range(0, 60, 3)])
    covariance = 20 / 19 * 59 / 56 * bread @ sums.T @ sums @ bread
    contrast = np.array([0.5, -0.5, 0.5, -0.5])
    return float(np.sqrt(contrast @ covariance @ contrast))


def test_satterthwaite_is_the_plans_own_estimate() -> None:
    data = simulate(Design(3, 6, 2), A, Effect("sparse", 0.2), 4, _stream("own"))
    found = satterthwaite(arms_of(data))
    for b in range(4):
        own = estimate_gap(data.means[b, :, 0], data.stratum, data.public)
        assert found.gap[b] == pytest.approx(own.gap)
        assert found.se[b] == pytest.approx(own.se)
        assert degrees(arms_of(data).mean(axis=4))[b] == pytest.approx(own.df)


# The gates: spec/statistics.md, section 6


@pytest.mark.parametrize(
    ("regime", "design"), [("A", Design(4, 4)), ("A", Design(4, 16)), ("C", Design(4, 4, 3))]
)
def test_permutation_holds_its_size_and_pooled_criteria_do_not(regime: str, design: Design) -> None:
    stream = _stream(f"gate {regime} {design.seeds}")
    permuted, pooled, covered = 0, 0, 0
    for batch in range(REPLICATIONS // BATCH):
        data = simulate(design, REGIMES[regime], Effect(), BATCH, stream)
        permuted += int((_permutation_p(data, batch) <= 0.05).sum())
        pooled += int((pooled_criteria(data).p <= 0.05).sum())
        covered += int((satterthwaite(arms_of(data)).p > 0.05).sum())  # the interval holds 0
    assert 0.035 <= permuted / REPLICATIONS <= 0.065
    assert pooled / REPLICATIONS > 0.5
    assert 0.93 <= covered / REPLICATIONS <= 0.97


def test_what_looks_reasonable_fails_where_seeds_are_few() -> None:
    stream = _stream("few")
    data = [simulate(Design(4, 4, 3), C, Effect(), BATCH, stream) for _ in range(15)]
    scores = np.concatenate([arms_of(each) for each in data])
    assert (cluster_robust(scores).p <= 0.05).mean() > 0.07
    assert (runs_as_independent(scores).p <= 0.05).mean() > 0.15
    article = [article_interval(each).p for each in data]
    assert (np.concatenate(article) <= 0.05).mean() > 0.25


def test_joint_permutations_hold_eight_looks_and_stouffers_sum_does_not() -> None:
    looks, per_arm, alpha = 8, 24, 0.025
    scores, _ = simulate_looks(
        0.5, looks=looks, models=1, per_arm=per_arm, gaps=np.zeros((looks, 1)),
        replications=800, stream=_stream("fwer"),
    )  # fmt: skip
    held = scores[:, :, 0]
    public = np.arange(2 * per_arm) < per_arm
    stratum = np.zeros(2 * per_arm, dtype=np.int64)
    rejected = np.concatenate([
        first_rejections(np.moveaxis(held[b : b + 50], 2, 0), stratum, public,
                         alpha=alpha, permutations=399, seed=b)
        for b in range(0, 800, 50)
    ])  # fmt: skip
    assert (rejected > 0).mean() <= alpha + 3 * 0.0055
    arms = np.stack([held[..., public], held[..., ~public]])
    gap = arms[0].mean(axis=-1) - arms[1].mean(axis=-1)
    z = gap / np.sqrt(arms.var(axis=-1, ddof=1).sum(axis=0) / per_arm)
    stouffer = z[:, :5].cumsum(axis=1) / np.sqrt(np.arange(1, 6))
    assert (stouffer >= LD_OBF).any(axis=1).mean() > 0.1


def _permutation_p(data: Simulated, seed: int) -> NDArray[np.float64]:
    """Two-sided, of the weighted score; replications stand where models would."""
    values = np.moveaxis(data.means, 0, 1)[:, :, :1]
    gaps = permute_gaps(
        values, data.stratum, data.public, permutations=199, enumerate_up_to=0, seed=seed
    )
    hits = np.abs(gaps.permuted) >= np.abs(gaps.observed) - TOLERANCE
    return np.asarray((1 + hits.sum(axis=0)) / 200)[:, 0]


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B, n) within task."""
    by_task = values.reshape(len(values), 4, -1)
    return np.asarray(by_task - by_task.mean(axis=2, keepdims=True))


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1])


def _stream(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([ord(letter) for letter in name]))

"""Other tests of the same gap, over many replications at once: what the plan does not use.

Most are wrong on purpose of comparison: they take criteria or runs for independent trials, or
trust large-sample theory where there are few seeds. ``satterthwaite`` is the plan's own interval
(estimators.estimate_gap) in this form. Notation of spec/statistics.md, section 1 and 3.

Shapes: B replications, K strata, S seeds an arm in each, R runs. ``scores`` (B, K, 2, S, R),
public first; ``passed`` by stratum (B, 2, S, R, metarubrics).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.statistics.simulate_process import TEMPLATES, Design, Regime, Simulated, moments

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """By replication: the gap, its standard error, and the two-sided p-value."""

    gap: Floats
    se: Floats
    p: Floats


def arms_of(data: Simulated) -> Floats:
    """The weighted scores as (B, K, 2, S, R)."""
    design = data.design
    shape = (len(data.scores), design.tasks, 2, design.seeds, design.runs)
    return data.scores[..., 0].reshape(shape)


def pooled_criteria(data: Simulated) -> Tested:
    """Two proportions of criteria, every criterion a trial of its own (about Fisher's test)."""
    passed = np.stack([_by_arm(p).sum(axis=(2, 3, 4)) for p in data.passed]).sum(axis=0)
    rows = sum(sum(m.rows for m in TEMPLATES[h % len(TEMPLATES)]) for h in range(data.design.tasks))
    total = rows * data.design.seeds * data.design.runs
    rate = passed / total
    whole = rate.mean(axis=1)
    return _z(rate[:, 0] - rate[:, 1], np.sqrt(2 * whole * (1 - whole) / total))


def article_interval(data: Simulated) -> Tested:
    """The article's: criteria independent within each metarubric, their variances added by the
    squares of weights, then over tasks and arms."""
    gap, variance = np.zeros(len(data.scores)), np.zeros(len(data.scores))
    for h, outcomes in enumerate(data.passed):
        template = TEMPLATES[h % len(TEMPLATES)]
        weight = np.array([float(m.weight) for m in template])
        weight /= weight.sum()
        trials = np.array([m.rows for m in template]) * data.design.seeds * data.design.runs
        rate = _by_arm(outcomes).sum(axis=(2, 3)) / trials  # (B, 2, metarubrics)
        gap += (rate[:, 0] - rate[:, 1]) @ weight
        variance += (rate * (1 - rate) / (trials - 1) @ weight**2).sum(axis=1)
    tasks = data.design.tasks
    return _z(gap / tasks, np.sqrt(variance) / tasks)


def runs_as_independent(scores: Floats) -> Tested:
    """Stratified z, every run a unit of its own."""
    flat = scores.reshape(*scores.shape[:3], -1)
    return _z(_gap(flat), _stratified_se(flat)[0])


def cluster_robust(scores: Floats) -> Tested:
    """The gap averaged over strata from a regression of runs on stratum and arm, clustered on the
    seed: CR1 with Stata's correction G/(G-1) (N-1)/(N-k), against the normal distribution."""
    tasks, seeds, runs = scores.shape[1], scores.shape[3], scores.shape[4]
    means = scores.mean(axis=4)
    squares = ((means - means.mean(axis=3, keepdims=True)) ** 2).sum(axis=(1, 2, 3))
    clusters, rows, parameters = 2 * tasks * seeds, 2 * tasks * seeds * runs, 2 * tasks
    correction = clusters / (clusters - 1) * (rows - 1) / (rows - parameters)
    return _z(_gap(means), np.sqrt(correction * squares) / seeds / tasks)


def welch_pooled(scores: Floats) -> Tested:
    """Welch's t on seed means, tasks pooled."""
    means = scores.mean(axis=4)
    flat = np.moveaxis(means, 2, 1).reshape(len(means), 1, 2, -1)
    return _t(flat)


def satterthwaite(scores: Floats) -> Tested:
    """The plan's P2: stratified t on seed means with Satterthwaite's degrees of freedom."""
    return _t(scores.mean(axis=4))


def logit_gee(data: Simulated, *, bias_reduced: bool) -> Tested:
    """A logit GEE of criteria with task intercepts and one effect of the arm, independence as the
    working correlation, clustered on the seed, against the normal distribution; ``gap`` and
    ``se`` are log odds.

    Criteria of a seed have the same regressors, so a cluster's residuals enter as their sum, and
    Mancl and DeRouen's (2001) correction divides it by one minus the cluster's leverage.
    """
    passed, rows, design = _clusters(data)
    effect = np.zeros((len(passed), design.shape[1]))
    for _ in range(25):
        chance, bread = _information(effect, rows, design)
        step = np.einsum("bkl,bl->bk", bread, (passed - rows * chance) @ design)
        effect += step
        if np.abs(step).max() < 1e-10:
            break
    chance, bread = _information(effect, rows, design)
    residual = passed - rows * chance
    if bias_reduced:
        weight = rows * chance * (1 - chance)
        residual /= 1 - weight * np.einsum("nk,bkl,nl->bn", design, bread, design)
    score = np.einsum("bn,nk,bk->bn", residual, design, bread[:, -1])
    return _z(effect[:, -1], np.sqrt((score**2).sum(axis=1)))


def bayes_mixed(data: Simulated) -> Tested:
    """A logistic mixed model of criteria with task intercepts, one effect of the arm and a random
    intercept by seed, fitted by statsmodels' variational Bayes, its posterior SD taken for a
    standard error; ``gap`` and ``se`` are log odds.

    The posterior is taken to factor into its parameters, so that the SD of the arm's effect knows
    nothing of the seeds' intercepts, which it is nearly exchangeable with.
    """
    passed, rows, design = _clusters(data)
    fits = np.array([_fit_bayes(replication, rows, design) for replication in passed])
    return _z(fits[:, 0], fits[:, 1])


def _fit_bayes(passed: Floats, rows: Floats, design: Floats) -> tuple[float, float]:
    """Posterior mean and SD of the last regressor, from criteria written out one by one."""
    from scipy.sparse import csr_matrix
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    seed = np.arange(len(rows)).repeat(rows.astype(np.int64))
    first = np.cumsum(rows) - rows
    right = np.arange(len(seed)) - first[seed] < passed[seed]
    membership = csr_matrix((np.ones(len(seed)), (np.arange(len(seed)), seed)))
    model = BinomialBayesMixedGLM(
        right.astype(np.float64), design[seed], membership, np.zeros(len(rows), dtype=np.int64)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stopped early; the result is where it stopped
        start = np.full(design.shape[1] + 1 + len(rows), np.exp(-0.5))  # else drawn from nowhere
        fit = model.fit_vb(sd=start)
    return float(fit.fe_mean[-1]), float(fit.fe_sd[-1])


def detectable_effect(design: Design, regime: Regime, power: float = 0.8) -> float:
    """(z.975 + z_power) SE, with the SE of a regime's variance: what simulation is held against."""
    from scipy.special import ndtri

    moment = moments(regime)
    seed_mean = moment.sd_score**2 * (moment.share + (1 - moment.share) / design.runs)
    se = math.sqrt(2 * seed_mean / (design.tasks * design.seeds))
    return float(ndtri(0.975) + ndtri(power)) * se


def degrees(means: Floats) -> Floats:
    """Satterthwaite's degrees of freedom of (B, K, 2, S) seed means."""
    return _stratified_se(means)[1]


def _clusters(data: Simulated) -> tuple[Floats, Floats, Floats]:
    """Criteria passed by seed (B, n), criteria (n,), and regressors (n, K + 1)."""
    passed = np.concatenate([p.sum(axis=(2, 3), dtype=np.int64) for p in data.passed], axis=1)
    whole = [sum(m.rows for m in TEMPLATES[h % len(TEMPLATES)]) for h in range(data.design.tasks)]
    rows = np.array(whole, dtype=np.float64)[data.stratum] * data.design.runs
    levels = np.eye(data.design.tasks)[data.stratum]
    return passed.astype(np.float64), rows, np.column_stack([levels, data.public])


def _information(effect: Floats, rows: Floats, design: Floats) -> tuple[Floats, Floats]:
    """Fitted chances (B, n), and the inverse of the information (B, K + 1, K + 1)."""
    chance: Floats = 1 / (1 + np.exp(-effect @ design.T))
    weight = rows * chance * (1 - chance)
    return chance, np.linalg.inv(np.einsum("bn,nk,nl->bkl", weight, design, design))


def _by_arm(passed: NDArray[np.int16]) -> NDArray[np.int64]:
    """(B, 2S, R, metarubrics) to (B, 2, S, R, metarubrics), in words that do not overflow."""
    b, n, runs, parts = passed.shape
    return passed.reshape(b, 2, n // 2, runs, parts).astype(np.int64)


def _gap(values: Floats) -> Floats:
    arms = values.mean(axis=3)
    gap: Floats = (arms[:, :, 0] - arms[:, :, 1]).mean(axis=1)
    return gap


def _stratified_se(values: Floats) -> tuple[Floats, Floats]:
    """SE and Satterthwaite's degrees of freedom of (B, K, 2, units)."""
    units = values.shape[3]
    variances = values.var(axis=3, ddof=1) / units
    total = variances.sum(axis=(1, 2))
    df = total**2 / (variances**2 / (units - 1)).sum(axis=(1, 2))
    return np.sqrt(total) / values.shape[1], df


def _z(gap: Floats, se: Floats) -> Tested:
    from scipy.special import ndtr

    return Tested(gap, se, 2 * np.asarray(ndtr(-np.abs(gap) / se)))


def _t(values: Floats) -> Tested:
    from scipy.special import stdtr

    gap = _gap(values)
    se, df = _stratified_se(values)
    return Tested(gap, se, 2 * np.asarray(stdtr(df, -np.abs(gap) / se)))

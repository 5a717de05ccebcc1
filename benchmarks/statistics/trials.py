"""What benchmarks/statistics/run.py counts: the tests of spec/statistics.md, section 3, on
simulated studies of one model. Each function returns hits by name, of so many replications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analysis.stats.adjustment import fit_slope
from analysis.stats.permutation import TOLERANCE, max_t, p_values, permute_gaps
from benchmarks.statistics.alternative_tests import (
    Tested,
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
from benchmarks.statistics.simulate_process import Design, Effect, Regime, Simulated, simulate

Floats = NDArray[np.float64]
Hits = Counter[str]

PERMUTATIONS = 999
BATCH = 100  # replications that share a draw of permutations
ALPHA = 0.05  # two-sided; power counts public above private only, at half of it
MARGIN = 0.05  # of P5


def count_alternatives(
    design: Design, regime: Regime, count: int, stream: np.random.Generator
) -> Hits:
    """Two-sided rejections of all tests without effect, and how often P2's interval holds 0."""
    hits: Hits = Counter()
    for data, seed in _batches(design, regime, Effect(), count, stream):
        scores = arms_of(data)
        tests: dict[str, Tested] = {
            "pooled criteria": pooled_criteria(data),
            "article": article_interval(data),
            "cr1": cluster_robust(scores),
            "welch": welch_pooled(scores),
            "satterthwaite": satterthwaite(scores),
            "gee": logit_gee(data, bias_reduced=False),
            "gee, bias-reduced": logit_gee(data, bias_reduced=True),
        }
        if design.runs > 1:
            tests["runs"] = runs_as_independent(scores)
        hits.update({name: _count(test.p <= ALPHA) for name, test in tests.items()})
        hits["coverage"] += _count(tests["satterthwaite"].p > ALPHA)
        hits["permutation"] += _count(_two_sided(_score(data), data, seed) <= ALPHA)
        if data.covariate is not None:
            adjusted = _adjusted(data)
            hits["permutation, ANCOVA"] += _count(_two_sided(adjusted, data, seed) <= ALPHA)
    return hits


def count_mixed(design: Design, regime: Regime, count: int, stream: np.random.Generator) -> Hits:
    """Two-sided rejections of a linear mixed model of runs with a random intercept by seed."""
    from analysis.stats.mixed_models import mixed_gap

    seeds = 2 * design.seeds
    place = np.arange(design.tasks * seeds).repeat(design.runs)
    task, public = place // seeds, place // design.seeds % 2 == 0
    hits: Hits = Counter()
    for data, _ in _batches(design, regime, Effect(), count, stream):
        for scores in arms_of(data):
            p = mixed_gap(scores.ravel(), place, task, public).p
            hits["mixed"] += int(p is not None and min(p, 1 - p) <= ALPHA / 2)
    return hits


def count_bayes(design: Design, regime: Regime, count: int, stream: np.random.Generator) -> Hits:
    """Two-sided rejections of a Bayesian logistic mixed model of criteria, by variational Bayes."""
    hits: Hits = Counter()
    for data, _ in _batches(design, regime, Effect(), count, stream):
        hits["bayes"] += _count(bayes_mixed(data).p <= ALPHA)
    return hits


def count_power(
    design: Design, regime: Regime, effect: Effect, count: int, stream: np.random.Generator
) -> Hits:
    """One-sided rejections of the permutation test: on the weighted score, the fraction, the
    larger of the two (max-T), and, with a covariate, adjusted and as difference in differences;
    claims of no inflation (P5); and how often P2's interval holds the effect."""
    hits: Hits = Counter()
    for data, seed in _batches(design, regime, effect, count, stream):
        values = np.moveaxis(data.means, 0, 1)
        hits["score"] += _count(_one_sided(values[:, :, :1], data, seed) <= ALPHA / 2)
        hits["fraction"] += _count(_one_sided(values[:, :, 1:], data, seed) <= ALPHA / 2)
        hits["max-T"] += _count(_one_sided(values, data, seed) <= ALPHA / 2)
        if data.covariate is not None:
            x = np.moveaxis(data.covariate, 0, 1)[:, :, :1]
            hits["ANCOVA"] += _count(_one_sided(_adjusted(data), data, seed) <= ALPHA / 2)
            hits["difference"] += _count(_one_sided(values[:, :, :1] - x, data, seed) <= ALPHA / 2)
        estimate = satterthwaite(arms_of(data))
        low, high, upper = _bounds(data, estimate)
        hits["coverage"] += _count((low <= effect.size) & (effect.size <= high))
        hits["no inflation"] += _count(upper < MARGIN)
    return hits


def count_equivalence(
    design: Design, regime: Regime, effect: Effect, count: int, stream: np.random.Generator
) -> Hits:
    """Claims of P5: no inflation above the margin, and equivalence within it (TOST)."""
    from scipy.special import stdtrit

    hits: Hits = Counter()
    for data, _ in _batches(design, regime, effect, count, stream):
        estimate = satterthwaite(arms_of(data))
        half = stdtrit(degrees(arms_of(data).mean(axis=4)), 0.95) * estimate.se
        below = estimate.gap + half < MARGIN
        hits["no inflation"] += _count(below)
        hits["equivalent"] += _count(below & (estimate.gap - half > -MARGIN))
    return hits


def measure_saved(
    design: Design, regime: Regime, count: int, stream: np.random.Generator
) -> tuple[float, float]:
    """The share of variance that the covariate takes off, and its Monte-Carlo error."""
    shares = []
    for data, _ in _batches(design, regime, Effect(), count, stream):
        assert data.covariate is not None
        x = np.moveaxis(data.covariate, 0, 1)[:, :, :1]
        shares.append(fit_slope(_score(data), x, data.stratum).rho2[:, 0])
    saved = np.concatenate(shares)
    return float(saved.mean()), float(saved.std(ddof=1) / np.sqrt(len(saved)))


def _batches(
    design: Design, regime: Regime, effect: Effect, count: int, stream: np.random.Generator
) -> Iterator[tuple[Simulated, int]]:
    for start in range(0, count, BATCH):
        data = simulate(design, regime, effect, min(BATCH, count - start), stream)
        yield data, int(stream.integers(1 << 62))


def _count(mask: NDArray[np.bool_]) -> int:
    return int(mask.sum())


def _score(data: Simulated) -> Floats:
    """(n, B, 1): replications stand where models would, and share the permutations."""
    return np.moveaxis(data.means, 0, 1)[:, :, :1]


def _adjusted(data: Simulated) -> Floats:
    assert data.covariate is not None
    x = np.moveaxis(data.covariate, 0, 1)[:, :, :1]
    return fit_slope(_score(data), x, data.stratum).residuals


def _one_sided(values: Floats, data: Simulated, seed: int) -> Floats:
    gaps = permute_gaps(
        values,
        data.stratum,
        data.public,
        permutations=PERMUTATIONS,
        enumerate_up_to=0,
        seed=seed,
    )
    return p_values(max_t(gaps))


def _two_sided(values: Floats, data: Simulated, seed: int) -> Floats:
    gaps = permute_gaps(
        values,
        data.stratum,
        data.public,
        permutations=PERMUTATIONS,
        enumerate_up_to=0,
        seed=seed,
    )
    hits = (np.abs(gaps.permuted) >= np.abs(gaps.observed) - TOLERANCE).sum(axis=0)[:, 0]
    return np.asarray((1 + hits) / (PERMUTATIONS + 1))


def _bounds(data: Simulated, estimate: Tested) -> tuple[Floats, Floats, Floats]:
    """P2's 95 % interval, and P5's one-sided 95 % bound."""
    from scipy.special import stdtrit

    df = degrees(arms_of(data).mean(axis=4))
    half, one = stdtrit(df, 0.975) * estimate.se, stdtrit(df, 0.95) * estimate.se
    return estimate.gap - half, estimate.gap + half, estimate.gap + one

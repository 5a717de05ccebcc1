"""What benchmarks/statistics/run.py counts over looks and models (spec/statistics.md, section 4):
the rules of the plan, and those that look alike, on the same simulated studies.

Gaussian scores in one stratum, as the specification's own table has them; D is a look's mean over
its models. Models are new at each look, so only what all models share of a seed's variance stays
from look to look: SHARED, of regimes A and C. z and e-values come from the gap and its standard
error, randomised ones from labels permuted jointly over looks.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from analysis.stats.adjustment import fit_slope
from analysis.stats.permutation import Permuted, holm, max_t, p_values, permute_gaps, westfall_young
from analysis.stats.sequential import linear_spending, remove_rows, scan_windows, tie_keys
from benchmarks.statistics.online_fdr import lord_plus_plus, saffron
from benchmarks.statistics.simulate_process import REGIMES, moments, simulate_looks

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LOOKS, MODELS, PER_ARM = 8, 3, 128
ALPHA = 0.025  # one-sided, over all looks
PERMUTATIONS = 999
MODEL_PERMUTATIONS = 4999  # of the per-model claims, which are held against alpha / 8
BATCH = 50
LOG_E = math.log(1 / ALPHA)
BET = 0.05  # the gap that a look's own e-value bets on
SHARED = {name: (found := moments(REGIMES[name])).share * found.shared for name in ("A", "C")}


@dataclass(frozen=True, slots=True)
class Scene:
    """One column of the specification's table."""

    regime: str
    gap: float = 0.0  # of every model
    onset: int = 4  # the look that it begins at
    fresh: bool = False  # each look has seeds of its own
    covariate_runs: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Stopped:
    """By rule: the look at which each replication first rejects, 0 for never."""

    looks: dict[str, NDArray[np.int64]]


def count_looks(
    scene: Scene, count: int, stream: np.random.Generator
) -> tuple[Counter[str], dict[str, tuple[float, float]]]:
    """Rejections by rule, and the mean look of those that reject with its error."""
    parts: dict[str, list[NDArray[np.int64]]] = {}
    for size in _sizes(count):
        for rule, looks in _stop(scene, size, stream).looks.items():
            parts.setdefault(rule, []).append(looks)
    whole = {rule: np.concatenate(claims) for rule, claims in parts.items()}
    hits = Counter({rule: int((looks > 0).sum()) for rule, looks in whole.items()})
    means = {
        rule: (
            float(looks[looks > 0].mean()),
            float(looks[looks > 0].std() / math.sqrt(hits[rule])),
        )
        for rule, looks in whole.items()
        if hits[rule] > 1
    }
    return hits, means


def _stop(scene: Scene, count: int, stream: np.random.Generator) -> Stopped:
    scores = _study(scene, count, stream)
    gap, se = _estimates(scores)
    rows = _rows(scores, scene.fresh, stream)
    first = {f"{name}": _first(mask) for name, mask in _per_look(gap, se, rows).items()}
    keys = tie_keys(PERMUTATIONS + 1, int(stream.integers(1 << 62)))
    quota = _quota()
    scan, cumulative = np.empty(count, np.int64), np.empty(count, np.int64)
    for b in range(count):
        scan[b] = remove_rows(scan_windows(rows[b])[0], quota, keys)[0]
        sums = rows[b].cumsum(axis=1)
        cumulative[b] = remove_rows(sums / sums.std(axis=0), quota, keys)[0]
    first["joint, cumulative"] = cumulative
    first["joint, window scan"] = scan
    first |= {name: _first(mask) for name, mask in _over_looks(scores, gap, se, scene).items()}
    return Stopped(first)


def _study(scene: Scene, count: int, stream: np.random.Generator) -> Floats:
    """D (B, looks, n), adjusted where the scene has a covariate."""
    gaps = np.zeros((LOOKS, MODELS))
    gaps[scene.onset - 1 :] = scene.gap
    scores, x = simulate_looks(
        SHARED[scene.regime],
        looks=LOOKS,
        models=MODELS,
        per_arm=PER_ARM,
        gaps=gaps,
        replications=count,
        stream=stream,
        fresh=scene.fresh,
        covariate_runs=scene.covariate_runs,
    )
    mean: Floats = scores.mean(axis=2)
    if x is None:
        return mean
    wide = np.broadcast_to(x, mean.shape)
    flat = fit_slope(_columns(mean), _columns(wide), np.zeros(mean.shape[2], dtype=np.int64))
    return np.ascontiguousarray(flat.residuals[:, :, 0].T).reshape(mean.shape)


def _columns(values: Floats) -> Floats:
    """(B, looks, n) to (n, B x looks, 1)."""
    return values.reshape(-1, values.shape[-1]).T[:, :, None]


def _estimates(scores: Floats) -> tuple[Floats, Floats]:
    """Gap and standard error (B, looks)."""
    public, private = scores[..., :PER_ARM], scores[..., PER_ARM:]
    variance = public.var(axis=-1, ddof=1) + private.var(axis=-1, ddof=1)
    return public.mean(axis=-1) - private.mean(axis=-1), np.sqrt(variance / PER_ARM)


def _rows(scores: Floats, fresh: bool, stream: np.random.Generator) -> Floats:
    """Gaps (B, rows, looks) under labels permuted jointly over looks that share their units, the
    observed first."""
    count = len(scores)
    groups = [[k] for k in range(LOOKS)] if fresh else [list(range(LOOKS))]
    rows = np.empty((count, PERMUTATIONS + 1, LOOKS))
    for group in groups:
        gaps = _permute(_columns(scores[:, group]), PERMUTATIONS, stream)
        both = np.concatenate([gaps.observed[None], gaps.permuted])[..., 0]
        rows[:, :, group] = np.moveaxis(both.reshape(-1, count, len(group)), 0, 1)
    return rows


def _permute(values: Floats, permutations: int, stream: np.random.Generator) -> Permuted:
    n = len(values)
    return permute_gaps(
        values,
        np.zeros(n, dtype=np.int64),
        np.arange(n) < n // 2,
        permutations=permutations,
        enumerate_up_to=0,
        seed=int(stream.integers(1 << 62)),
    )


def _per_look(gap: Floats, se: Floats, rows: Floats) -> dict[str, Bools]:
    """Rules that test each look by itself: (B, looks)."""
    p = (rows >= rows[:, :1] - 1e-12).mean(axis=1)
    total = np.cumsum(gap / se, axis=1) / np.sqrt(np.arange(1, LOOKS + 1))
    return {
        "uncorrected": p <= ALPHA,
        "Bonferroni": p <= ALPHA / LOOKS,
        "peeking": total >= 1.959964,
    }


def _over_looks(scores: Floats, gap: Floats, se: Floats, scene: Scene) -> dict[str, Bools]:
    """Rules that put looks together: (B, looks)."""
    from benchmarks.statistics.eprocess import onset_process

    bound = _boundary()
    looks = np.arange(1, LOOKS + 1)
    stouffer = np.cumsum(gap / se, axis=1) / np.sqrt(looks)
    running, error = _cumulative(scores, gap, se, scene.fresh)
    onset = [
        onset_process(g.tolist(), e.tolist(), alpha=ALPHA, looks_most=LOOKS).values
        for g, e in zip(running, error, strict=True)
    ]
    return {
        "LD-OBF, Stouffer": stouffer >= bound,
        "LD-OBF, cumulative": running / error >= bound,
        "product of e-values": np.cumsum((BET * gap - BET**2 / 2) / se**2, axis=1) >= LOG_E,
        "e-process, cumulative": _log_e(running, error) >= LOG_E,
        "e-process, onset": np.array(onset) >= 1 / ALPHA,
    }


@functools.cache
def _boundary() -> Floats:
    from benchmarks.statistics.boundaries import equal_information, lan_demets

    return lan_demets(equal_information(LOOKS), ALPHA)


def _log_e(gap: Floats, se: Floats) -> Floats:
    """The logs of normal-mixture e-values, one for each gap."""
    from benchmarks.statistics.eprocess import log_mixture

    score, information = gap / se**2, 1 / se**2
    logs = map(log_mixture, score.ravel().tolist(), information.ravel().tolist())
    return np.fromiter(logs, np.float64, gap.size).reshape(gap.shape)


def _cumulative(scores: Floats, gap: Floats, se: Floats, fresh: bool) -> tuple[Floats, Floats]:
    """Gap and error of seed means over the looks so far; of all seeds so far, where each look has
    its own."""
    looks = np.arange(1, LOOKS + 1)
    if fresh:
        return np.cumsum(gap, axis=1) / looks, np.sqrt(np.cumsum(se**2, axis=1)) / looks
    return _estimates(np.cumsum(scores, axis=1) / looks[:, None])


def _quota() -> NDArray[np.int64]:
    spent = np.array(linear_spending(ALPHA, LOOKS)) * (PERMUTATIONS + 1)
    return np.floor(spent + 1e-9).astype(np.int64)


def _first(mask: Bools) -> NDArray[np.int64]:
    """The first look that rejects, from 1; 0 for none."""
    return np.where(mask.any(axis=1), mask.argmax(axis=1) + 1, 0)


def _sizes(count: int) -> Iterator[int]:
    for start in range(0, count, BATCH):
        yield min(BATCH, count - start)


# Per-model claims


def count_models(
    regime: str, covariate_runs: int, count: int, stream: np.random.Generator
) -> dict[str, tuple[float, float, float, float, float, float]]:
    """24 models in 8 looks, six of them at random inflated by 10 points: by rule, the rate of
    studies with a false claim, the mean share of false claims, power, each with its Monte-Carlo
    error."""
    claims_of: dict[str, list[Bools]] = {}
    inflated = []
    for size in _sizes(count):
        chosen = stream.permuted(np.tile(np.arange(24) < 6, (size, 1)), axis=1)
        scores, x = simulate_looks(
            SHARED[regime],
            looks=LOOKS,
            models=MODELS,
            per_arm=PER_ARM,
            gaps=0.10 * chosen.reshape(size, LOOKS, MODELS),
            replications=size,
            stream=stream,
            covariate_runs=covariate_runs,
        )
        inflated.append(chosen)
        for rule, claims in _claims(_free(scores, x), stream).items():
            claims_of.setdefault(rule, []).append(claims)
    truth = np.concatenate(inflated)
    return {rule: _rates(np.concatenate(claims), truth) for rule, claims in claims_of.items()}


def _free(scores: Floats, x: Floats | None) -> Floats:
    """(B, looks, models, n), adjusted where there is a covariate."""
    if x is None:
        return scores
    wide = np.broadcast_to(x[:, :, None], scores.shape)
    stratum = np.zeros(scores.shape[-1], dtype=np.int64)
    flat = fit_slope(_columns(scores), _columns(wide), stratum)
    return np.ascontiguousarray(flat.residuals[:, :, 0].T).reshape(scores.shape)


def _claims(scores: Floats, stream: np.random.Generator) -> dict[str, Bools]:
    """Claims (B, models) by rule, models in the order of their looks. Online rules ask for levels
    below what permutations resolve: they are given the normal tail of the same statistic."""
    from scipy.special import ndtr

    count = len(scores)
    p, tail, stepped, family = (np.empty((count, LOOKS, MODELS)) for _ in range(4))
    for k in range(LOOKS):
        gaps = _permute(_columns(scores[:, k]), MODEL_PERMUTATIONS, stream)
        for b in range(count):
            own = slice(b * MODELS, (b + 1) * MODELS)
            each = max_t(Permuted(gaps.observed[own], gaps.permuted[:, own], False))
            p[b, k] = p_values(each)
            tail[b, k] = ndtr(-each.observed)
            stepped[b, k] = holm(p[b, k])
            family[b, k] = westfall_young(each)
    level = ALPHA / LOOKS
    claims = {
        "uncorrected": p <= ALPHA,
        "Holm": stepped <= level,
        "Westfall–Young": family <= level,
    }
    flat = {rule: each.reshape(count, -1) for rule, each in claims.items()}
    every, fine = p.reshape(count, -1), tail.reshape(count, -1).tolist()
    return flat | {
        "LORD++": np.array([lord_plus_plus(each).rejected for each in fine]),
        "SAFFRON": np.array([saffron(each).rejected for each in fine]),
        "BH": np.array([false_discovery_control(each) <= 0.05 for each in every]),
        "BY": np.array([false_discovery_control(each, method="by") <= 0.05 for each in every]),
    }


def _rates(claims: Bools, inflated: Bools) -> tuple[float, float, float, float, float, float]:
    false, right = (claims & ~inflated).sum(axis=1), (claims & inflated).sum(axis=1) / 6
    wrong = false / np.maximum(claims.sum(axis=1), 1)
    parts = ((false > 0).astype(np.float64), wrong, right)
    scale = math.sqrt(len(claims))
    fwer, fdr, power = ((float(x.mean()), float(x.std(ddof=1) / scale)) for x in parts)
    return (*fwer, *fdr, *power)

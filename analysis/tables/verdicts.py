"""Verdicts on models of which only counts are known: each by itself, adjusted by Holm's method."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from analysis.plan.comparison import (
    EDGE,
    LEAST_CONTROLS,
    Private,
    compare,
    estimate_only,
    placebo_p,
)
from analysis.plan.history import RANDOM
from analysis.plan.verdict import Evidence, Rule, Verdict, decide
from analysis.stats.clearing import CONTROL_LEVEL, STRATUM_LEVEL, Doubts, clear_models
from analysis.stats.intervals import GapEstimates
from analysis.stats.permutation import Bools, Floats, Ints, holm
from analysis.tables.counts import Counts

_OUTCOME = "score"


def verdicts_of_counts(
    counts: Counts, controls: Collection[str], allocation: str, rule: Rule
) -> tuple[Verdict, ...]:
    """A verdict on each model that is no control, by its gap over the gap's standard error (Welch
    1947). Instances that other models have are missing: they count against a claim, and a model
    without them is not cleared. Where arms were not allotted at random, each model may have arms of
    its own, and gaps are compared with those of the control models."""
    gaps, p = estimate_count_gaps(counts), gap_tail(counts)
    if allocation == RANDOM:
        p = np.maximum(p, gap_tail(_fill_missing(counts)))
    unexposed = np.isin(counts.models, [*controls])
    tested = np.flatnonzero(~unexposed)
    doubts = Doubts(np.array(_controls_doubted(counts, unexposed)), _own_stratum(counts)[tested])
    clearing = clear_models(_of(gaps, tested), rule.margin, doubts)
    adjusted = holm(p[tested])
    fewer = (counts.n < counts.n.max(axis=0)).any(axis=2)[tested] & (allocation == RANDOM)
    verdicts = [
        decide(
            counts.models[m],
            0,
            Evidence(
                outcome=_OUTCOME,
                gap=gaps.one(m, 0),
                p=float(p[m]),
                p_adjusted=float(adjusted[place]),
                p_floor=0.0,
                bound=clearing.one(place, [_OUTCOME]),
                doubt=_doubt(counts, doubts, place, fewer[place]),
            ),
            rule,
        )
        for place, m in enumerate(tested.tolist())
    ]
    if allocation == RANDOM:
        return tuple(verdicts)
    return tuple(_compare(counts, unexposed, verdicts, rule.alpha))


def estimate_count_gaps(counts: Counts) -> GapEstimates:
    """The models' gaps (M, 1): those of the strata weighted by √(n₁n₂), with the degrees of freedom
    of Welch and Satterthwaite."""
    n, weight = counts.n, _weights(counts)
    parts = weight[..., None] ** 2 * counts.variance / n
    squared, arms = parts.sum(axis=(1, 2)), counts.n.sum(axis=1).astype(np.int64)
    squared = np.where(squared > 0, squared, np.nan)
    df = squared**2 / np.maximum((parts**2 / (n - 1)).sum(axis=(1, 2)), 1e-300)
    gap = (weight * (counts.mean[..., 0] - counts.mean[..., 1])).sum(axis=1)
    columns = (gap, np.sqrt(squared), df, arms[:, 0], arms[:, 1])
    gap, se, df, public, private = (column[:, None] for column in columns)
    return GapEstimates(gap=gap, se=se, df=df, n_public=public, n_private=private)


def gap_tail(counts: Counts) -> Floats:
    """One-sided p (M,) of gaps above 0, 1 without spread. Of shares the variance is that of both
    arms together, as it is if there is no gap."""
    from scipy.special import stdtr

    if counts.shares:
        n = counts.n.sum(axis=2, keepdims=True)
        mean = (counts.n * counts.mean).sum(axis=2, keepdims=True) / n
        pooled = mean * (1 - mean) * n / (n - 1)
        counts = replace(counts, variance=np.broadcast_to(pooled, counts.n.shape))
    gaps = estimate_count_gaps(counts)
    return np.nan_to_num(stdtr(gaps.df, -gaps.gap / gaps.se)[:, 0], nan=1.0)


def _fill_missing(counts: Counts) -> Counts:
    """The counts with what a model lacks as failed in the public arm and passed in the other, with
    the largest variance that the means allow."""
    n = np.broadcast_to(counts.n.max(axis=0), counts.n.shape)
    mean = (counts.n * counts.mean + (n - counts.n) * np.array([0.0, 1.0])) / n
    whole, most = n == counts.n, mean * (1 - mean) * n / (n - 1)
    return replace(counts, n=n, mean=mean, variance=np.where(whole, counts.variance, most))


def _weights(counts: Counts) -> Floats:
    """The weight of each stratum in a model's gap (M, S)."""
    root = np.sqrt(counts.n.prod(axis=2))
    return np.asarray(root / root.sum(axis=1, keepdims=True))


def _of(gaps: GapEstimates, models: Ints) -> GapEstimates:
    names = ("gap", "se", "df", "n_public", "n_private")
    return GapEstimates(**{name: getattr(gaps, name)[models] for name in names})


def _controls_doubted(counts: Counts, controls: Bools) -> bool:
    """Report whether a control model has a gap by itself, or all have one together; their errors
    are taken for one, since they ran on the same instances."""
    if not controls.any():
        return False
    from scipy.special import ndtr

    gaps = estimate_count_gaps(counts)
    mean, error = gaps.gap[controls].mean(), np.nan_to_num(gaps.se[controls]).mean()
    together = ndtr(-mean / error) < CONTROL_LEVEL if error else mean > 0
    return bool(together or gap_tail(counts)[controls].min() < CONTROL_LEVEL / controls.sum())


def _own_stratum(counts: Counts) -> Ints:
    """The stratum (M,) with the clearest gap by itself; −1 without one, or with one stratum."""
    count = len(counts.strata)
    parts = (
        replace(
            counts, n=counts.n[:, [s]], mean=counts.mean[:, [s]], variance=counts.variance[:, [s]]
        )
        for s in range(count)
    )
    p = np.stack([gap_tail(part) for part in parts], axis=1)
    clear = (p.min(axis=1) < STRATUM_LEVEL / count) & (count > 1)
    return np.where(clear, p.argmin(axis=1), -1)


def _doubt(counts: Counts, doubts: Doubts, place: int, fewer: Bools) -> str:
    stratum = int(doubts.stratum[place])
    if bool(doubts.controls):
        return "the control models have a gap of their own"
    if fewer.any():
        return f"it has fewer instances of {counts.strata[fewer.argmax()]} than another model"
    return "" if stratum < 0 else f"{counts.strata[stratum]} has a gap by itself"


def _compare(
    counts: Counts, controls: Bools, verdicts: Sequence[Verdict], alpha: float
) -> Iterator[Verdict]:
    gaps, weight = estimate_count_gaps(counts), _weights(counts)[..., None]
    spread = controls & ~np.isnan(gaps.se[:, 0])
    if (models := int(spread.sum())) < LEAST_CONTROLS:
        why = f"{models} control models have scores that differ, and it takes {LEAST_CONTROLS}"
        yield from (estimate_only(verdict, why) for verdict in verdicts)
        return
    means, error = (weight * counts.mean).sum(axis=1), gaps.se[:, 0]
    inside = np.clip(means, EDGE, 1 - EDGE)
    middle, odds = inside.mean(axis=1), np.log(inside / (1 - inside))
    p = [
        placebo_p(
            (scale[:, 0] - scale[:, 1])[~controls],
            se[~controls],
            (scale[:, 0] - scale[:, 1])[spread],
            float(np.mean(se[spread] ** 2)),
        )
        for scale, se in ((means, error), (odds, error / (middle * (1 - middle))))
    ]
    private = Private(means[~controls, 1], means[spread, 1], models)
    yield from compare(verdicts, np.max(p, axis=0), private, alpha)

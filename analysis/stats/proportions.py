"""Shares of right answers with intervals that know which answers share an instance.

The interval is Wilson's at 95 % on an *effective* number of answers. For one question, whose C
instances gave y_c right of m_c answers each, with p = Σy/Σm:

    n* = p(1 − p) / v,   v = C/(C − 1) · Σ(y_c − p·m_c)² / (Σm)²         (cluster-robust)
    n  = n* · (z / t_{C−1})²                                             (few instances)

cut to lie between (Σm)²/Σm², as if the answers to one instance always agreed, and Σm, as if they
were independent. Where p is 0 or 1, or C is 1, v says nothing, and the lower end is taken. With
one answer an instance it is plainly Wilson's. (Korn and Graubard 1998 have the factor of t;
Franco et al. 2019, J. Surv. Stat. Methodol. 7:334, Wilson's form on it.)

A mean over questions, Σ w_q p_q, has 1/Σ(w_q²/n_q) effective answers, or fewer where the variance
Σ w_q² p_q(1 − p_q)/n_q asks for it. That questions differ is not taken off, so that its interval
is rather too wide than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.stats.permutation import Floats

Z = 1.959963984540054  # two-sided 95 %


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of right answers; ``mean`` and ``interval`` are None where there are no answers."""

    mean: float | None = None
    interval: tuple[float, float] | None = None
    right: int = 0
    answers: int = 0  # that count
    missing: int = 0  # left out: no verdict
    instances: int = 0  # with an answer that counts
    effective: float = 0.0  # answers, for the interval


NOTHING = Rate()


def rate_of(verdicts: Iterable[tuple[Any, bool | None]]) -> Rate:
    """The rate of one question from pairs of instance and verdict; None is left out and
    counted."""
    right: dict[Any, int] = {}
    total: dict[Any, int] = {}
    missing = 0
    for instance, verdict in verdicts:
        if verdict is None:
            missing += 1
            continue
        right[instance] = right.get(instance, 0) + verdict
        total[instance] = total.get(instance, 0) + 1
    return rate_of_counts(
        np.array(list(right.values()), dtype=np.float64),
        np.array(list(total.values()), dtype=np.float64),
        missing,
    )


def rate_of_counts(right: Floats, total: Floats, missing: int = 0) -> Rate:
    """The same from counts by instance: right answers, and answers that count."""
    y, m = right[total > 0], total[total > 0]
    if not len(m):
        return Rate(missing=missing)
    mean = float(y.sum() / m.sum())
    n = float(effective_answers(y[None], m[None])[0, -1])
    return Rate(
        mean=mean,
        interval=wilson(mean, n),
        right=int(y.sum()),
        answers=int(m.sum()),
        missing=missing,
        instances=len(m),
        effective=n,
    )


def effective_answers(right: Floats, total: Floats) -> Floats:
    """The effective number of answers in the first 1, 2, … instances of each row.

    ``right`` and ``total`` are (rows, instances), each total at least 1; so is the result.
    """
    y, m = np.cumsum(right, 1), np.cumsum(total, 1)
    squares = np.cumsum(total**2, 1)
    p = y / m
    spread = np.cumsum(right**2, 1) - 2 * p * np.cumsum(right * total, 1) + p**2 * squares
    count = np.arange(1, right.shape[1] + 1, dtype=np.float64)
    floor = m**2 / squares
    known = (count > 1) & (y > 0) & (y < m)
    few = np.maximum(count - 1, 1)
    variance = np.maximum(count / few * spread / m**2, 1e-12)  # 1e-12: every instance alike
    n = p * (1 - p) / variance * (Z / _t(few)) ** 2
    return np.where(known, np.clip(n, floor, m), floor)


def mean_of(rates: Sequence[Rate], weights: Sequence[float] | None = None) -> Rate:
    """The mean of some questions' rates, with equal weights, or with those given.

    Nothing where one of them has no answers: an average of some is not that of all.
    """
    if not rates or any(rate.mean is None for rate in rates):
        return Rate(**_sums(rates))
    p = np.array([rate.mean for rate in rates], dtype=np.float64)
    n = np.array([rate.effective for rate in rates])
    w = np.full(len(rates), 1.0) if weights is None else np.array(weights, dtype=np.float64)
    w = w / w.sum()
    mean = min(max(float(w @ p), 0.0), 1.0)
    size = 1 / float((w**2 / n).sum())
    variance = float((w**2 * p * (1 - p) / n).sum())
    if variance > 0:
        size = min(size, mean * (1 - mean) / variance)
    return Rate(mean, wilson(mean, size), **_sums(rates), effective=size)


def pooled(rates: Iterable[Rate]) -> Rate:
    """Right answers of all answers, over questions; those without answers weigh nothing."""
    listed = list(rates)
    there = [rate for rate in listed if rate.answers]
    missing = sum(rate.missing for rate in listed)
    if not there:
        return Rate(missing=missing)
    share = mean_of(there, [rate.answers for rate in there])
    mean = share.right / share.answers  # as it is, without the rounding of a weighted sum
    return replace(share, mean=mean, interval=wilson(mean, share.effective), missing=missing)


def wilson(mean: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen in ``n`` answers, which need not be whole.

    Not statsmodels' ``proportion_confint``: its ends are not exactly 0 and 1 where the share is,
    for about a third of all n, and a call takes 700 times as long."""
    centre = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n**2))
    low = 0.0 if mean == 0 else max(0.0, centre - half)
    return low, 1.0 if mean == 1 else min(1.0, centre + half)


def difference(first: Rate, second: Rate) -> tuple[float, tuple[float, float]] | None:
    """``first`` minus ``second``, of other instances, with Newcombe's interval (his method 10);
    None where either has no answers."""
    if first.mean is None or second.mean is None or not first.interval or not second.interval:
        return None
    gap = first.mean - second.mean
    down = math.hypot(first.mean - first.interval[0], second.interval[1] - second.mean)
    up = math.hypot(first.interval[1] - first.mean, second.mean - second.interval[0])
    return gap, (max(-1.0, gap - down), min(1.0, gap + up))


def _sums(rates: Sequence[Rate]) -> dict[str, Any]:
    names = ("right", "answers", "missing", "instances")
    return {name: sum(getattr(rate, name) for rate in rates) for name in names}


def _t(df: Floats) -> Floats:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, 0.975), dtype=np.float64)

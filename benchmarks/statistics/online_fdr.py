"""Online control of the false discovery rate: reference beside the plan, never primary.

At two dozen tests it pays nothing (spec/statistics.md, §4). P-values come in order; each is held
against a level that follows from what was rejected before it. Valid for independent p-values,
which those of models that share seeds are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from analysis.errors import AnalysisError

Gamma = Callable[[int], float]

_SAFFRON_SUM = 0.4374901658  # normalises j^-1.6


@dataclass(frozen=True, slots=True)
class OnlineFdr:
    """The level that each p-value met, and which ones did not exceed it."""

    levels: tuple[float, ...]
    rejected: tuple[bool, ...]


def lord_plus_plus(p: Sequence[float], alpha: float = 0.05, wealth: float = 0.025) -> OnlineFdr:
    """LORD++ (Ramdas, Yang, Wainwright and Jordan 2017, section 3.1), with γ after Javanmard and
    Montanari (2018). ``wealth`` is w₀."""
    _check(p, alpha, wealth)
    levels: list[float] = []
    hits: list[int] = []
    for t, value in enumerate(p, start=1):
        level = _earned(t, [t - hit for hit in hits], alpha, wealth, _lord_gamma)
        _take(levels, hits, t, value, level)
    return _result(levels, hits)


def saffron(
    p: Sequence[float], alpha: float = 0.05, wealth: float = 0.025, candidate: float = 0.5
) -> OnlineFdr:
    """SAFFRON (Ramdas, Zrnic, Wainwright and Jordan 2018, algorithm 1), γ_j ∝ j^-1.6; p-values
    up to ``candidate`` (λ) cost nothing."""
    _check(p, alpha, wealth)
    if not 0 < candidate < 1:
        raise AnalysisError(f"candidate {candidate} must lie between 0 and 1")
    seen = (0, *accumulate(int(value <= candidate) for value in p))
    levels: list[float] = []
    hits: list[int] = []
    for t, value in enumerate(p, start=1):
        free = seen[t - 1]
        lags = [t - hit - (free - seen[hit]) for hit in hits]
        level = (1 - candidate) * _earned(t - free, lags, alpha, wealth, _saffron_gamma)
        _take(levels, hits, t, value, min(candidate, level))
    return _result(levels, hits)


def _earned(t: int, lags: list[int], alpha: float, wealth: float, gamma: Gamma) -> float:
    """γ_t w₀, and what the rejections have earned: (α - w₀) γ for the first, α γ for the others."""
    level = wealth * gamma(t)
    if lags:
        level += (alpha - wealth) * gamma(lags[0])
    return level + alpha * math.fsum(map(gamma, lags[1:]))


def _lord_gamma(j: int) -> float:
    return 0.07720838 * math.log(max(j, 2)) / (j * math.exp(math.sqrt(math.log(j))))


def _saffron_gamma(j: int) -> float:
    return _SAFFRON_SUM * math.pow(j, -1.6)


def _take(levels: list[float], hits: list[int], t: int, value: float, level: float) -> None:
    levels.append(level)
    if value <= level:
        hits.append(t)


def _result(levels: list[float], hits: list[int]) -> OnlineFdr:
    return OnlineFdr(tuple(levels), tuple(t in hits for t in range(1, len(levels) + 1)))


def _check(p: Sequence[float], alpha: float, wealth: float) -> None:
    if not all(0 <= value <= 1 for value in p):
        raise AnalysisError("p-values lie between 0 and 1")
    if not 0 < wealth <= alpha < 1:
        raise AnalysisError(f"wealth {wealth} must be above 0, and alpha {alpha} no less, below 1")

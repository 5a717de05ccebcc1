"""Estimates with intervals: arrays in, frozen results out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.stats.permutation import Bools, Floats, Ints

LEVEL = 0.05  # of each one-sided test


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests of a gap against ± margin, each at 5 % (Schuirmann 1987).

    ``p_lower`` is against a gap ≤ −margin, ``p_upper`` against one ≥ margin. ``interval90`` is
    two-sided, its upper end the one-sided 95 % bound; ``equivalent`` says that it lies inside
    ± margin.
    """

    p_lower: float
    p_upper: float
    equivalent: bool
    interval90: tuple[float, float]
    margin: float


def tost(gap: float, se: float | None, df: float | None, margin: float) -> Equivalence:
    """Equivalence of the arms from a gap, its standard error and degrees of freedom (P2, P5), and a
    margin above 0. Where the variance is not known (``se`` or ``df`` None) nothing is claimed: p is
    1 and the interval that of the scale."""
    if se is None or df is None:
        return Equivalence(1.0, 1.0, False, (-1.0, 1.0), margin)
    from scipy.special import stdtr

    half = t_quantile(1 - LEVEL, df) * se
    low, high = gap - half, gap + half
    p_lower, p_upper = (float(stdtr(df, at / se)) for at in (-(gap + margin), gap - margin))
    inside, interval90 = -margin < low and high < margin, (max(low, -1.0), min(high, 1.0))
    return Equivalence(p_lower, p_upper, inside, interval90, margin)


@dataclass(frozen=True, slots=True)
class GapEstimate:
    """Public minus private mean, averaged over strata.

    ``interval`` is two-sided 95 %, ``upper`` the one-sided 95 % bound, both cut to −1…1. Where the
    variance cannot be estimated (one instance in an arm of a single stratum, or no spread at all),
    ``se`` and ``df`` are None and the bounds are those of the scale: nothing is known beyond them.
    """

    gap: float
    se: float | None
    df: float | None
    interval: tuple[float, float] = (-1.0, 1.0)
    upper: float = 1.0
    n_public: int = 0
    n_private: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class GapEstimates:
    """Gaps of many columns at once, ``gap``, ``se`` and ``df`` in the shape of the columns; ``se``
    and ``df`` are NaN where the variance cannot be estimated. ``n_public`` and ``n_private`` count
    the instances that have a score."""

    gap: Floats
    se: Floats
    df: Floats
    n_public: Ints
    n_private: Ints

    def one(self, *place: int) -> GapEstimate:
        """The estimate of one column with its intervals."""
        gap, se, df = (float(part[place]) for part in (self.gap, self.se, self.df))
        names = ("n_public", "n_private")
        counts: dict[str, Any] = {name: int(getattr(self, name)[place]) for name in names}
        if math.isnan(se):
            return GapEstimate(gap, None, None, **counts)
        half = t_quantile(0.975, df) * se
        upper = min(gap + t_quantile(0.95, df) * se, 1.0)
        interval = max(gap - half, -1.0), min(gap + half, 1.0)
        return GapEstimate(gap, se, df, interval, upper, **counts)


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """An arm's mean, averaged over strata, with a two-sided 95 % interval cut to the scale; the
    interval is None where the variance cannot be estimated."""

    mean: float
    interval: tuple[float, float] | None
    seeds: int


def estimate_gap(scores: Floats, stratum: Ints, public: Bools) -> GapEstimate:
    """g ± t_nu SE of one column; as ``estimate_gaps``. ``scores`` (n,) are seed means, NaN if
    missing; each stratum has scores in both arms."""
    scored = ~np.isnan(scores)
    return estimate_gaps(scores[scored, None], stratum[scored], public[scored]).one(0)


def estimate_gaps(scores: Floats, stratum: Ints, public: Bools) -> GapEstimates:
    """Gap, SE and degrees of freedom of each column of ``scores`` (n, …), NaN if missing.

    SE² = K⁻² Σ_h (s²_pub/n_pub + s²_prv/n_prv), with Satterthwaite's nu. Strata that have one
    instance in an arm have no s² there: such strata are collapsed (Wolter 2007, 2.5), so that the
    spread of their gaps takes the place of the sum, which errs on the side of a wide interval. For
    pairs, K strata of one instance an arm, this is the paired t. One such stratum alone has no
    variance. Gaps are NaN if a stratum lacks an arm.
    """
    gaps, counts, variances = _stratum_gaps(scores, stratum, public)
    k, (n_public, n_private) = len(gaps), counts.sum(axis=1)
    single = (counts == 1).any(axis=0)
    alone = single.sum(axis=0)
    variances = np.where(single, 0.0, variances)
    middle = (np.where(single, gaps, 0.0)).sum(axis=0) / np.maximum(alone, 1)
    squares = (np.where(single, gaps - middle, 0.0) ** 2).sum(axis=0)
    collapsed = alone * squares / np.maximum(alone - 1, 1)
    total = variances.sum(axis=(0, 1)) + collapsed
    known = (total > 1e-24) & (alone != 1)  # not rounding of constants
    spread = (variances**2 / np.maximum(counts - 1, 1)).sum(axis=(0, 1))
    spread += collapsed**2 / np.maximum(alone - 1, 1)
    nothing = np.full(total.shape, np.nan)
    df = np.divide(total**2, spread, out=nothing.copy(), where=known)
    se = np.sqrt(total, out=nothing, where=known) / k
    return GapEstimates(gaps.mean(axis=0), se, df, n_public, n_private)


def _stratum_gaps(scores: Floats, stratum: Ints, public: Bools) -> tuple[Floats, Ints, Floats]:
    """By stratum the gap (K, …), and by arm and stratum (2, K, …) the counts and s²/n."""
    codes, rest = np.unique(stratum), scores.shape[1:]
    means, variances = np.full((2, 2, len(codes), *rest), np.nan)
    counts = np.zeros((2, len(codes), *rest), dtype=np.int64)
    for place, arm in enumerate((public, ~public)):
        for h, code in enumerate(codes):
            part = scores[arm & (stratum == code)]
            there = ~np.isnan(part)
            n = counts[place, h] = there.sum(axis=0)
            mean = means[place, h]
            np.divide(np.where(there, part, 0.0).sum(axis=0), n, out=mean, where=n > 0)
            squares = (np.where(there, part - mean, 0.0) ** 2).sum(axis=0)
            np.divide(squares, (n - 1) * n, out=variances[place, h], where=n > 1)
    return means[0] - means[1], counts, variances


def estimate_mean(scores: Floats, stratum: Ints, *, least: float = 0.0) -> MeanEstimate:
    """The mean over strata of one arm's seed means, with the same kind of interval, cut to
    ``least``…1."""
    parts = [scores[stratum == h] for h in np.unique(stratum)]
    n, mean = np.array(list(map(len, parts))), float(np.mean([part.mean() for part in parts]))
    if n.min() < 2:
        return MeanEstimate(mean, None, len(scores))
    variance = np.array([part.var(ddof=1) for part in parts]) / n
    total = float(variance.sum())
    if total <= 1e-24:  # rounding of constants
        return MeanEstimate(mean, None, len(scores))
    df = total**2 / float((variance**2 / (n - 1)).sum())
    half = t_quantile(0.975, df) * math.sqrt(total) / len(parts)
    return MeanEstimate(mean, (max(least, mean - half), min(1.0, mean + half)), len(scores))


def one_armed(scores: Floats, stratum: Ints, public: Bools) -> list[int]:
    """The strata that lack a score in one of the arms, or in both."""
    scored = ~np.isnan(scores)
    return [
        int(h) for h in np.unique(stratum) if len(np.unique(public[scored & (stratum == h)])) < 2
    ]


def t_quantile(level: float, df: float) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(df, level))


def points(value: float) -> str:
    """A share of 1 as points of 100, with one decimal."""
    return f"{100 * value:.1f}"


def signed(value: float) -> str:
    """A gap (share of 1) as points of 100, with its sign; 0.0 has none."""
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def p_words(value: float, floor: float = 0.0) -> str:
    """A p-value with four decimals, five if it is below 0.001. At its ``floor``, the least that the
    permutations can show, it is a bound: "≤ 0.00005"; so is one that five decimals do not show."""
    if 0 < value <= floor * (1 + 1e-9):
        return f"≤ {_rounded_up(floor)}"
    if value < 0.00001:
        return "< 0.00001"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def _rounded_up(value: float) -> str:
    """A number with four decimals or, below 0.001, two digits that count, never below it."""
    places = 4 if value >= 0.001 else 1 - math.floor(math.log10(value))
    text = f"{math.ceil(value * 10**places - 1e-6) / 10**places:.{places}f}"
    return text if places == 4 else text.rstrip("0")


def counted_range(counts: Sequence[int], noun: str) -> str:
    """Counts with their noun: one, if they are equal, or the least and the most."""
    least, most = min(counts), max(counts)
    return counted(most, noun) if least == most else f"{least} to {counted(most, noun)}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, in the plural unless it is 1."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"

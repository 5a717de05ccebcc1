"""What models answer that were trained on a release at known doses, and what probes see of it.

A dose is the number of copies of each public instance in a model's training data. Intervals are at
95 %, and know which answers of several models share an instance. Missing answers are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from analysis.plan.verdict import CONTAMINATED, Word
from analysis.power.power import claims
from analysis.stats.permutation import Bools, Floats, Ints
from analysis.stats.proportions import Rate, difference, rate_of_counts
from registry.ledger.records import Plan

SIZES = (50, 100, 200, 400)  # instances an arm
SUBSETS = 200  # of the instances, for each model and size
GROUPS = ("low", "middle", "high")  # of key size
_BLANK, _DETECTION = 1.645, 3.29  # standard errors
_ENOUGH = (1.644853627 + 0.841621234) ** 2  # one-sided 5 %, power 80 %

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class DosedModel:
    """A model's answers to the instances (n,) of both arms: 1 right, 0 wrong, NaN missing; its
    verdict, None if it is not tested; and by name what probes measured, each (n,). ``copies`` (n,)
    of each instance are in its training data; all public ones have ``dose``, None if each has its
    own."""

    name: str
    dose: int | None
    copies: Ints
    right: Floats
    verdict: Word | None
    probes: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class ArmRate:
    """A share of right answers, with its interval and the number of instances."""

    mean: float
    interval: Interval
    instances: int


@dataclass(frozen=True, slots=True)
class KeySizeGap:
    """The gap of instances whose answers have like entropy, in bits."""

    group: str
    bits: float  # mean
    gap: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class SizePower:
    """The share of random subsets of the instances in which the plan's rule finds the model."""

    instances: int  # an arm
    found: float


@dataclass(frozen=True, slots=True)
class ProbePower:
    """What a measure sees: area under the curve of public above private, and the instances an arm
    for a power of 80 % at one-sided 5 %; None where it sees nothing."""

    probe: str
    auc: float
    instances: int | None


@dataclass(frozen=True, slots=True)
class DosedGap:
    """One model: its verdict (None if it is not tested), and its gap in the share of right answers,
    with no adjustment."""

    model: str
    verdict: Word | None
    gap: float


@dataclass(frozen=True, slots=True)
class DoseRow:
    """All models of one dose. ``found`` of ``tested`` are contaminated; ``private_rise`` is that of
    their private arm over that of dose 0, None without such a model."""

    dose: int
    models: tuple[DosedGap, ...]
    public: ArmRate
    private: ArmRate
    gap: float
    interval: Interval
    found: int
    tested: int
    by_size: tuple[SizePower, ...]
    by_key: tuple[KeySizeGap, ...]
    probes: tuple[ProbePower, ...]
    private_rise: float | None
    rise_interval: Interval | None


@dataclass(frozen=True, slots=True)
class DoseTrend:
    """A model whose public instances each have a dose of their own: right answers by dose, and the
    test of Cochran and Armitage for a rise, one-sided."""

    model: str
    doses: tuple[int, ...]
    right: tuple[float, ...]  # whole numbers unless instances were run several times
    instances: tuple[int, ...]
    private: ArmRate
    z: float
    p: float
    verdict: Word | None


@dataclass(frozen=True, slots=True)
class DoseResponse:
    """``blank`` and ``limit`` are the limits of blank and of detection, from the standard errors of
    the gaps at dose 0, None without such a model; ``dose_at_limit`` is where the gap reaches the
    latter, by straight lines between doses; None where none does."""

    rows: tuple[DoseRow, ...]
    trends: tuple[DoseTrend, ...]
    blank: float | None
    limit: float | None
    dose_at_limit: float | None


def dose_response(
    plan: Plan, models: Sequence[DosedModel], public: Bools, bits: Floats, seed: int
) -> DoseResponse:
    """What the doses did. ``public`` (n,) marks the arm and ``bits`` (n,) is the entropy of each
    instance's answer."""
    doses = sorted({model.dose for model in models if model.dose is not None})
    by_dose = {dose: [m for m in models if m.dose == dose] for dose in doses}
    clean = by_dose.get(0, [])
    rows = tuple(
        _row(plan, dose, listed, clean, public, bits, seed) for dose, listed in by_dose.items()
    )
    errors = [_standard_error(model.right, public) for model in clean]
    error = math.sqrt(np.mean(np.square(errors))) if errors else None
    limit = None if error is None else _DETECTION * error
    return DoseResponse(
        rows,
        tuple(_trend(model, public) for model in models if model.dose is None),
        None if error is None else _BLANK * error,
        limit,
        None if limit is None else _dose_at(limit, rows),
    )


def _row(
    plan: Plan,
    dose: int,
    models: Sequence[DosedModel],
    clean: Sequence[DosedModel],
    public: Bools,
    bits: Floats,
    seed: int,
) -> DoseRow:
    right = np.stack([model.right for model in models], axis=1)
    rates = _rate(right[public]), _rate(right[~public])
    gap, interval = _gap(right, public)
    rise, rise_interval = None, None
    if clean and dose:
        rise, rise_interval = _rise(right, np.stack([m.right for m in clean], axis=1), ~public)
    tested = [model for model in models if model.verdict]
    return DoseRow(
        dose,
        tuple(DosedGap(m.name, m.verdict, _gap(m.right[:, None], public)[0]) for m in models),
        *rates,
        gap,
        interval,
        sum(model.verdict == CONTAMINATED for model in tested),
        len(tested),
        tuple(_power(plan, right, public, seed)),
        tuple(_by_key(right, public, bits)),
        tuple(_probes(models, public)),
        rise,
        rise_interval,
    )


def _rate(right: Floats) -> ArmRate:
    """The rate of answers (instances, models)."""
    rate = _counted(right)
    if rate.mean is None or rate.interval is None:
        return ArmRate(math.nan, (math.nan, math.nan), 0)
    return ArmRate(rate.mean, rate.interval, rate.instances)


def _counted(right: Floats) -> Rate:
    there = ~np.isnan(right)
    return rate_of_counts(np.nansum(right, axis=1), there.sum(axis=1).astype(np.float64))


def _gap(right: Floats, public: Bools) -> tuple[float, Interval]:
    found = difference(_counted(right[public]), _counted(right[~public]))
    return (math.nan, (math.nan, math.nan)) if found is None else found


def _rise(right: Floats, clean: Floats, private: Bools) -> tuple[float, Interval]:
    """The mean difference on the same instances, with a normal interval."""
    apart = np.nanmean(right[private], axis=1) - np.nanmean(clean[private], axis=1)
    apart = apart[~np.isnan(apart)]
    mean, half = float(apart.mean()), 1.96 * float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return mean, (mean - half, mean + half)


def _standard_error(right: Floats, public: Bools) -> float:
    arms = (right[public & ~np.isnan(right)], right[~public & ~np.isnan(right)])
    return math.sqrt(sum(float(arm.var(ddof=1)) / len(arm) for arm in arms))


def _power(plan: Plan, right: Floats, public: Bools, seed: int) -> Sequence[SizePower]:
    """Power of the plan's rule on the score of one model alone, over subsets of the instances."""
    powers = []
    for size in SIZES:
        found: list[bool] = []
        for place, column in enumerate(right.T):
            arms = [np.flatnonzero(arm & ~np.isnan(column)) for arm in (public, ~public)]
            if min(map(len, arms)) < size:
                continue
            stream = np.random.default_rng((seed, size, place))
            count = 1 if all(len(arm) == size for arm in arms) else SUBSETS
            chosen = [
                np.concatenate([stream.permutation(arm)[:size] for arm in arms])
                for _ in range(count)
            ]
            values = np.stack([column[each] for each in chosen], axis=1)[:, :, None, None]
            first = np.arange(2 * size) < size
            tested = replace(plan, seeds_per_arm=size, outcomes=plan.outcomes[:1], standard=None)
            stratum = np.zeros(2 * size, dtype=np.int64)
            found += claims(tested, values, None, stratum, first, seed)[:, 0].tolist()
        if found:
            powers.append(SizePower(size, float(np.mean(found))))
    return powers


def _by_key(right: Floats, public: Bools, bits: Floats) -> Sequence[KeySizeGap]:
    """Gaps in groups of key size, with as many sizes in each as can be."""
    sizes = np.array_split(np.unique(bits.round(6)), len(GROUPS))
    gaps = []
    for name, group in zip(GROUPS, sizes, strict=True):
        here = np.isin(bits.round(6), group)
        if (here & public).any() and (here & ~public).any():
            gap, interval = _gap(right[here], public[here])
            gaps.append(KeySizeGap(name, float(bits[here].mean()), gap, interval))
    return gaps


def _probes(models: Sequence[DosedModel], public: Bools) -> Sequence[ProbePower]:
    """The accuracy gap and each probe: means over the models that have it."""
    names = dict.fromkeys(name for model in models for name in model.probes)
    measures = {"right answers": [model.right for model in models]} | {
        name: [model.probes[name] for model in models if name in model.probes] for name in names
    }
    return [_probe(name, columns, public) for name, columns in measures.items()]


def _probe(name: str, columns: Sequence[Floats], public: Bools) -> ProbePower:
    areas, gaps, variances = [], [], []
    for column in columns:
        there = ~np.isnan(column)
        seen, unseen = column[public & there], column[~public & there]
        areas.append(area_under_curve(seen, unseen))
        gaps.append(float(seen.mean() - unseen.mean()))
        variances.append(float(seen.var(ddof=1) + unseen.var(ddof=1)))
    gap = float(np.mean(gaps))
    needed = math.ceil(_ENOUGH * np.mean(variances) / gap**2) if gap > 0 else None
    return ProbePower(name, float(np.mean(areas)), needed)


def area_under_curve(seen: Floats, unseen: Floats) -> float:
    """The probability that a value of ``seen`` is above one of ``unseen``, ties counting half."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(seen, unseen).statistic) / (len(seen) * len(unseen))


def _trend(model: DosedModel, public: Bools) -> DoseTrend:
    there = ~np.isnan(model.right)
    doses = sorted(set(model.copies[public].tolist()))
    cells = [model.right[public & there & (model.copies == dose)] for dose in doses]
    right = [float(cell.sum()) for cell in cells]
    z, p = cochran_armitage(right, [len(cell) for cell in cells], doses)
    return DoseTrend(
        model.name,
        tuple(doses),
        tuple(right),
        tuple(len(cell) for cell in cells),
        _rate(model.right[~public][:, None]),
        z,
        p,
        model.verdict,
    )


def cochran_armitage(
    right: Sequence[float], total: Sequence[int], dose: Sequence[float]
) -> tuple[float, float]:
    """Return z of a linear trend of shares over doses, and the one-sided p of a rise (Cochran 1954;
    Armitage 1955). z is 0 and p 1/2 where all answers, or all doses, are alike."""
    from scipy.special import ndtr

    y, n, x = (np.asarray(each, dtype=np.float64) for each in (right, total, dose))
    share, centred = y.sum() / n.sum(), x - (n * x).sum() / n.sum()
    variance = share * (1 - share) * (n * centred**2).sum()
    z = float((y * centred).sum() / math.sqrt(variance)) if variance > 0 else 0.0
    return z, float(ndtr(-z))


def _dose_at(limit: float, rows: Sequence[DoseRow]) -> float | None:
    for low, high in pairwise(rows):
        if low.gap < limit <= high.gap:
            return low.dose + (high.dose - low.dose) * (limit - low.gap) / (high.gap - low.gap)
    return None


def mean_of_least(values: Floats, share: float = 0.2) -> float:
    """The mean of the least ``share`` of values (n,), rounded down, of at least one: Min-K% of
    log-probabilities (Shi et al. 2024)."""
    count = max(1, math.floor(share * len(values) + 1e-9))
    return float(np.sort(values)[:count].mean())

"""How far a judge can be trusted: its errors where the truth is known, how graders agree, and gaps
freed of its errors (spec/statistics.md, C3).

Sensitivity is the share of met criteria that the judge calls met, specificity the share of unmet
criteria that it calls unmet. A criterion that it left ungraded is in neither, and counted.
Intervals know which criteria share an answer sheet (analysis/stats/proportions.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev
from typing import Any

import numpy as np

from analysis.errors import AnalysisError
from analysis.stats import GapEstimate, Rate, Z, rate_of
from registry.ledger import JudgeRule


@dataclass(frozen=True, slots=True)
class JudgeRates:
    """A judge as `judge check` measured it on answers whose truth is known."""

    judge: str
    digest: str  # of its pin
    criteria: int
    sensitivity: Rate  # of what is met, the share that it says is
    specificity: Rate  # of what is not met, the share that it says is not
    kappa: float | None  # Cohen's, with the truth


@dataclass(frozen=True, slots=True)
class CorrectedGap:
    """A gap freed of a judge's errors, with a two-sided 95 % interval; ``se`` and ``interval``
    are None where the gap's own variance cannot be estimated."""

    gap: float
    se: float | None
    interval: tuple[float, float] | None


def read_rates(body: Mapping[str, Any], place: str) -> JudgeRates:
    """The rates that the verdicts of a stored check come to, worked out anew. Raises
    AnalysisError for what is no result of a check."""
    try:
        verdicts = [(str(v["sheet"]), v["truth"], v["verdict"]) for v in body["verdicts"]]
        name, digest = str(body["judge"]["name"]), str(body["digest"])
        sound = all(t in (True, False) and v in (True, False, None) for _, t, v in verdicts)
    except (KeyError, TypeError):
        sound = False
    if not sound:
        raise AnalysisError(f"{place}: not the result of a judge check")
    sensitivity, specificity = (
        rate_of((s, None if v is None else v is truth) for s, t, v in verdicts if t is truth)
        for truth in (True, False)
    )
    kappa = cohen_kappa([t for _, t, _ in verdicts], [v for _, _, v in verdicts])
    return JudgeRates(name, digest, len(verdicts), sensitivity, specificity, kappa)


def shortfall(rule: JudgeRule, rates: JudgeRates | None) -> str:
    """Where a judge misses what a plan asks of it, in words; "" where it does not."""
    if rates is None or rates.digest != rule.pin:
        return f"it was not measured; `dosimeter judge check {rule.name}` does"
    reasons = []
    if rates.criteria < rule.min_criteria:
        reasons.append(f"{rates.criteria} criteria, the plan asks for {rule.min_criteria} or more")
    for name, value, least in (
        ("sensitivity", rates.sensitivity.mean, rule.min_sensitivity),
        ("specificity", rates.specificity.mean, rule.min_specificity),
        ("kappa", rates.kappa, rule.min_kappa),
    ):
        if least is not None and (value is None or value < least):
            is_now = "unknown" if value is None else f"{value:.3f}"
            reasons.append(f"{name} {is_now}, the plan asks for {least:g} or more")
    return "; ".join(reasons)


def correct_estimate(gap: GapEstimate, rates: JudgeRates) -> CorrectedGap | None:
    """The gap that a perfect judge would have seen: g' = g / J with J = sensitivity +
    specificity − 1, for errors that are alike in both arms (Rogan and Gladen 1978).

    By the delta method Var g' = Var g / J² + g² (Var se + Var sp) / J⁴, with the variances of the
    rates from Wilson's intervals, which know that a rate of 1 is not certain, and of the sheets.
    The interval has Student's t with Satterthwaite's degrees of freedom, of which only Var g has
    few. What the judge was never asked about (answers that are not there) scores 0 without error
    and is stretched with the rest: where an arm has many such, g' is too large.

    None where the rates are unknown, or do not rule out a judge that does no better than chance.
    """
    se, sp = rates.sensitivity, rates.specificity
    if se.mean is None or sp.mean is None:
        return None
    noise = rate_variance(se) + rate_variance(sp)
    skill = se.mean + sp.mean - 1
    corrected = correct_gap(gap.gap, se.mean, sp.mean)
    if corrected is None or skill - Z * math.sqrt(noise) <= 0:
        return None
    if gap.se is None or gap.df is None:
        return CorrectedGap(corrected, None, None)
    sampling = (gap.se / skill) ** 2
    variance = sampling + (gap.gap / skill**2) ** 2 * noise
    half = _t(gap.df * (variance / sampling) ** 2) * math.sqrt(variance)
    return CorrectedGap(corrected, math.sqrt(variance), (corrected - half, corrected + half))


def rate_variance(rate: Rate) -> float:
    """The variance of a rate by Wilson's interval: not 0 even if all verdicts were right."""
    low, high = rate.interval or (0.0, 1.0)
    return float(((high - low) / (2 * Z)) ** 2)


def _t(df: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.975))


GROUPS = ("task", "dimension", "style")


@dataclass(frozen=True, slots=True)
class Judged:
    """One criterion of one answer sheet: what is true of it, and what a judge said."""

    sheet: str
    task: str
    dimension: str
    style: str  # of the answer: correct, injected, …
    truth: bool
    verdict: bool | None  # None where the judge left it ungraded


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A judge's rates on some criteria: all, where ``by`` is empty, or those of one group."""

    by: str
    group: str
    sensitivity: Rate
    specificity: Rate


@dataclass(frozen=True, slots=True)
class FamilyBias:
    """By how much more a judge adds to the share passed of models of its own family than of
    others', each against the exact grader at the same instance; with a 95 % interval."""

    difference: float
    interval: tuple[float, float]
    instances: int


def measure_judge(judged: Sequence[Judged]) -> tuple[Accuracy, ...]:
    """The rates over everything, then by task, dimension and answer style."""
    rows = [_accuracy("", "", judged)]
    for by in GROUPS:
        for group in sorted({getattr(verdict, by) for verdict in judged}):
            rows.append(_accuracy(by, group, [x for x in judged if getattr(x, by) == group]))
    return tuple(rows)


def _accuracy(by: str, group: str, judged: Sequence[Judged]) -> Accuracy:
    sensitivity, specificity = (
        rate_of(
            (verdict.sheet, None if verdict.verdict is None else verdict.verdict is truth)
            for verdict in judged
            if verdict.truth is truth
        )
        for truth in (True, False)
    )
    return Accuracy(by, group, sensitivity, specificity)


def correct_gap(gap: float, sensitivity: float, specificity: float) -> float | None:
    """A gap of pass rates, freed of errors that are alike in both arms (Rogan and Gladen 1978):
    gap / (sensitivity + specificity − 1). None for a judge that does no better than chance."""
    skill = sensitivity + specificity - 1
    return gap / skill if skill > 0 else None


def cohen_kappa(
    first: Sequence[Hashable | None], second: Sequence[Hashable | None]
) -> float | None:
    """Agreement of two graders beyond chance (Cohen 1960), over what both have graded; None where
    that is nothing, or where both only ever say the same one thing. Raises AnalysisError for
    sequences of different length."""
    from statsmodels.stats.inter_rater import cohens_kappa

    _same_length((first, second))
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not both:
        return None
    values = {value: place for place, value in enumerate(dict.fromkeys(chain(*both)))}
    if len(values) == 1:
        return None
    table = np.zeros((len(values), len(values)))
    np.add.at(table, ([values[a] for a, _ in both], [values[b] for _, b in both]), 1)
    return float(cohens_kappa(table, return_results=False))


def krippendorff_alpha(ratings: Sequence[Sequence[Hashable | None]]) -> float | None:
    """Krippendorff's alpha for nominal values (Krippendorff 2011): ``ratings`` has a row for each
    grader and a column for each thing graded, None where it was not.

    None where no thing has two values, or where all values are the same. Raises AnalysisError for
    rows of different length.
    """
    _same_length(ratings)
    columns = ([v for v in column if v is not None] for column in zip(*ratings, strict=True))
    units = [Counter(column) for column in columns if len(column) >= 2]
    totals: Counter[Hashable] = sum(units, Counter())
    n = totals.total()
    expected = n**2 - sum(count**2 for count in totals.values())
    if not expected:
        return None
    observed = sum(
        (unit.total() ** 2 - sum(count**2 for count in unit.values())) / (unit.total() - 1)
        for unit in units
    )
    return 1 - (n - 1) * observed / expected


def family_bias(shifts: Iterable[tuple[str, bool, float]]) -> FamilyBias | None:
    """The bias from (instance, whether the model is of the judge's family, judge's share passed
    minus the exact grader's). Paired by instance; None below two instances that have both."""
    by_instance: dict[str, Mapping[bool, list[float]]] = {}
    for instance, same_family, shift in shifts:
        by_instance.setdefault(instance, {True: [], False: []})[same_family].append(shift)
    pairs = [fmean(x[True]) - fmean(x[False]) for x in by_instance.values() if x[True] and x[False]]
    if len(pairs) < 2:
        return None
    from scipy.special import stdtrit

    mean = fmean(pairs)
    half = float(stdtrit(len(pairs) - 1, 0.975)) * stdev(pairs) / math.sqrt(len(pairs))
    return FamilyBias(mean, (mean - half, mean + half), len(pairs))


def _same_length(rows: Sequence[Sequence[Hashable | None]]) -> None:
    if len({len(row) for row in rows}) > 1:
        raise AnalysisError("graders to compare must have graded the same things, in one order")

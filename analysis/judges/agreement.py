"""How far a judge can be trusted: its errors where the truth is known, and how graders agree.

Sensitivity is the share of criteria that are met and that the judge says are met; specificity
that of those that are not and that it says are not. What a judge left ungraded is in neither, and
counted. Intervals know which criteria share an answer sheet (analysis/stats/proportions.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev

import numpy as np

from analysis.errors import AnalysisError
from analysis.stats import Rate, rate_of

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

"""A judge whose errors differ between the arms: whether they do, and the gap freed of them
(spec/statistics.md, C3).

Of criteria of which the share π is met, a judge of sensitivity se and specificity sp passes the
share p = se·π + (1 − sp)(1 − π), so that π = (p + sp − 1)/J with J = se + sp − 1 (Rogan and Gladen
1978). Errors that are alike in both arms only shrink a gap, to J times what it is; it is enough
to divide by J. Errors that differ make one: a judge that wrongly passes 3 % more on public ones
adds up to 3 points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer

from analysis.data import codes_of
from analysis.errors import AnalysisError
from analysis.judges.error_rates import rate_variance
from analysis.stats import (
    Bools,
    Floats,
    Ints,
    Rate,
    Z,
    permutation_seed,
    permute_gaps,
    rate_of_counts,
    two_sided_p,
)
from registry.ledger import JudgeRule, Plan
from registry.result_row import Arm

LABELS = 400  # criteria labelled by hand that a correction asks for
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class CorrectedByArm:
    """The gap of what is met, by the rates of each arm, with its standard error and 95 % interval,
    which count the errors of the means and of the rates; ``skill`` is J by arm, public first."""

    gap: float
    se: float
    interval: tuple[float, float]
    skill: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Errors:
    """A judge's rates over some labelled criteria."""

    sensitivity: Rate
    specificity: Rate

    @property
    def labels(self) -> int:
        """The number of labelled criteria that the judge decided."""
        return self.sensitivity.answers + self.specificity.answers


@dataclass(frozen=True, slots=True)
class ErrorsByArm:
    """A judge's rates in either arm, and the two-sided p of their being the same, by permutation
    of whole answer sheets. ``enough`` says that there are 400 labels, and some of each kind in
    either arm."""

    public: Errors
    private: Errors
    p_sensitivity: float
    p_specificity: float
    enough: bool

    @property
    def differ(self) -> bool:
        """Whether either rate is shown to differ."""
        return bool(self.differing)

    @property
    def differing(self) -> tuple[str, ...]:
        """The rates that are shown to differ; each p is held against half of .05."""
        p = {"sensitivity": self.p_sensitivity, "specificity": self.p_specificity}
        return tuple(name for name, p_value in p.items() if p_value < LEVEL / 2)


def _rate_body(rate: Rate) -> dict[str, Any]:
    return {"rate": rate.mean, "interval": rate.interval, "criteria": rate.answers}


def _errors_body(errors: ErrorsByArm) -> dict[str, Any]:
    return {
        "sensitivity_public": _rate_body(errors.public.sensitivity),
        "specificity_public": _rate_body(errors.public.specificity),
        "sensitivity_private": _rate_body(errors.private.sensitivity),
        "specificity_private": _rate_body(errors.private.specificity),
        "p_sensitivity": errors.p_sensitivity,
        "p_specificity": errors.p_specificity,
        "enough": errors.enough,
        "differ": errors.differ,
    }


RateBody = Annotated[Rate, PlainSerializer(_rate_body)]  # as report.json has it
ErrorsBody = Annotated[ErrorsByArm, PlainSerializer(_errors_body)]


def correct_by_arm(
    public: tuple[float, float], private: tuple[float, float], errors: ErrorsByArm
) -> CorrectedByArm | None:
    """The gap where each arm has its own errors: π of public minus π of private, with an interval
    by the delta method. ``public`` and ``private`` are an arm's mean and its standard error.

    None where an arm has no rates, or rates that do not rule out a judge no better than chance.
    """
    first, second = (
        _corrected(*arm, arm_errors)
        for arm, arm_errors in ((public, errors.public), (private, errors.private))
    )
    if first is None or second is None:
        return None
    gap, se = first[0] - second[0], math.sqrt(first[1] + second[1])
    return CorrectedByArm(gap, se, (gap - Z * se, gap + Z * se), (first[2], second[2]))


def compare_counts(
    right: Floats,
    total: Floats,
    stratum: Ints,
    public: Bools,
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> ErrorsByArm:
    """A judge's errors by arm, from counts by instance: the criteria that it decided (``total``),
    and decided rightly, of those that are met and of those that are not, both (n, 2).

    The test permutes the arm over instances within strata, since all criteria of an instance share
    it: its statistic, for each of the two rates, is the gap of the right verdicts less those that
    the pooled rate foretells. Raises AnalysisError if all instances are of one arm.
    """
    if public.all() or not public.any():
        raise AnalysisError("labelled criteria of one arm only: both are wanted to compare errors")
    pooled = right.sum(axis=0) / np.maximum(total.sum(axis=0), 1)
    gaps = permute_gaps(
        (right - total * pooled)[:, :, None],
        stratum,
        public,
        permutations=permutations,
        enumerate_up_to=enumerate_up_to,
        seed=seed,
    )
    p = two_sided_p(gaps)
    by_arm = [
        Errors(*(rate_of_counts(right[arm, kind], total[arm, kind], 0) for kind in (0, 1)))
        for arm in (public, ~public)
    ]
    rates = [rate for errors in by_arm for rate in (errors.sensitivity, errors.specificity)]
    enough = sum(errors.labels for errors in by_arm) >= LABELS and all(r.answers for r in rates)
    return ErrorsByArm(by_arm[0], by_arm[1], float(p[0]), float(p[1]), enough)


def _corrected(mean: float, se: float, errors: Errors) -> tuple[float, float, float] | None:
    """π of an arm, its variance, and J."""
    met, unmet = errors.sensitivity, errors.specificity
    if met.mean is None or unmet.mean is None:
        return None
    skill, noise = met.mean + unmet.mean - 1, (rate_variance(met), rate_variance(unmet))
    if skill <= Z * math.sqrt(sum(noise)):
        return None
    rate = (mean + unmet.mean - 1) / skill
    known = rate**2 * noise[0] + (1 - rate) ** 2 * noise[1]
    return rate, (se**2 + known) / skill**2, skill


@dataclass(slots=True)
class Labels:
    """Counts of a judge's verdicts on criteria of known truth, by instance: met and judged met,
    met, not met and judged not met, not met."""

    counts: dict[str, list[int]] = field(default_factory=dict, repr=False)
    places: dict[str, tuple[str, Arm]] = field(default_factory=dict, repr=False)  # stratum, arm

    def add(
        self, instance: str, stratum: str, arm: Arm, verdicts: Iterable[tuple[bool, bool]]
    ) -> None:
        """Count an answer's criteria: the truth of each, and the judge's verdict."""
        self.places[instance] = stratum, arm
        counts = self.counts.setdefault(instance, [0, 0, 0, 0])
        for truth, verdict in verdicts:
            kind = 0 if truth else 2
            counts[kind] += verdict is truth
            counts[kind + 1] += 1


def errors_by_arm(plan: Plan, labels: Labels, judge: str, registration: str) -> ErrorsByArm | None:
    """The judge's errors in either arm over the plan's strata; None where a stratum has labelled
    criteria in one arm only, or there are none."""
    instances = sorted(
        name for name, (stratum, _) in labels.places.items() if stratum in plan.strata
    )
    if not instances:
        return None
    strata, stratum = codes_of(
        np.array([labels.places[name][0] for name in instances], dtype=object)
    )
    public = np.array([labels.places[name][1] is Arm.PUBLIC for name in instances])
    if len(set(zip(stratum.tolist(), public.tolist(), strict=True))) < 2 * len(strata):
        return None
    counts = np.array([labels.counts[name] for name in instances], dtype=np.float64)
    return compare_counts(
        counts[:, [0, 2]],
        counts[:, [1, 3]],
        stratum,
        public,
        permutations=plan.permutations,
        enumerate_up_to=plan.enumerate_up_to,
        seed=permutation_seed(registration, "C3", "errors", judge),
    )


def arm_shortfall(rule: JudgeRule | None, errors: ErrorsByArm | None) -> str:
    """Why no gap is corrected by arm, in words; "" where it may be. ``rule`` is what the plan asks
    of the judge: it holds in either arm."""
    if errors is None:
        return "no criterion of known truth in both arms of every stratum"
    return "; ".join(_shortfalls(rule, errors))


def _shortfalls(rule: JudgeRule | None, errors: ErrorsByArm) -> Iterator[str]:
    least = LABELS if rule is None else max(LABELS, rule.min_criteria)
    count = errors.public.labels + errors.private.labels
    if count < least:
        yield f"{count} criteria of known truth, {least} or more are wanted"
    for arm, rates in ((Arm.PUBLIC, errors.public), (Arm.PRIVATE, errors.private)):
        for name, rate, asked in _rates(rates, rule):
            if rate.mean is None:
                yield f"{name} unknown on {arm} instances"
            elif asked is not None and rate.mean < asked:
                shortfall = f"{name} {rate.mean:.3f} on {arm} instances"
                yield f"{shortfall}, the plan asks for {asked:g} or more"


def _rates(errors: Errors, rule: JudgeRule | None) -> Iterator[tuple[str, Rate, float | None]]:
    yield "sensitivity", errors.sensitivity, None if rule is None else rule.min_sensitivity
    yield "specificity", errors.specificity, None if rule is None else rule.min_specificity


def arm_mean(scores: Floats, stratum: Ints) -> tuple[float, float] | None:
    """An arm's mean over strata and its standard error; None where a stratum has one instance."""
    parts = [scores[stratum == h] for h in np.unique(stratum)]
    if any(len(part) < 2 for part in parts):
        return None
    variance = sum(float(part.var(ddof=1)) / len(part) for part in parts)
    mean = float(np.mean([part.mean() for part in parts]))
    return mean, math.sqrt(variance) / len(parts)

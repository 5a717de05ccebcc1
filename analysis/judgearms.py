"""A judge's errors by arm, on the study's own answers.

What is right in an answer the exact grader says, so that every criterion that both have decided is
a labelled one (spec/statistics.md, C3). Counts by instance are all that is kept of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.judgeerror import LABELS, Errors, ErrorsByArm, compare_counts
from analysis.load import codes_of
from analysis.rates import Rate
from analysis.resample import permutation_seed
from registry.records import JudgeRule, Plan
from registry.tables import Arm


@dataclass(slots=True)
class Labels:
    """Counts of a judge's verdicts on criteria of known truth, by instance: met and said to be
    met, met, not met and said not to be, not met."""

    counts: dict[str, list[int]] = field(default_factory=dict, repr=False)
    places: dict[str, tuple[str, Arm]] = field(default_factory=dict, repr=False)  # stratum, arm

    def add(self, instance: str, stratum: str, arm: Arm, said: Iterable[tuple[bool, bool]]) -> None:
        """Count an answer's criteria: what is true of each, and what the judge said."""
        self.places[instance] = stratum, arm
        own = self.counts.setdefault(instance, [0, 0, 0, 0])
        for truth, verdict in said:
            kind = 0 if truth else 2
            own[kind] += verdict is truth
            own[kind + 1] += 1


def errors_by_arm(plan: Plan, labels: Labels, judge: str, registration: str) -> ErrorsByArm | None:
    """The judge's errors in either arm over the plan's strata; None where a stratum has labelled
    criteria in one arm only, or there are none."""
    held = sorted(name for name, (stratum, _) in labels.places.items() if stratum in plan.strata)
    if not held:
        return None
    strata, stratum = codes_of(np.array([labels.places[each][0] for each in held], dtype=object))
    public = np.array([labels.places[each][1] is Arm.PUBLIC for each in held])
    if len(set(zip(stratum.tolist(), public.tolist(), strict=True))) < 2 * len(strata):
        return None
    counts = np.array([labels.counts[each] for each in held], dtype=np.float64)
    return compare_counts(
        counts[:, [0, 2]], counts[:, [1, 3]], stratum, public,
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
        seed=permutation_seed(registration, "C3", "errors", judge),
    )  # fmt: skip


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
    for arm, own in ((Arm.PUBLIC, errors.public), (Arm.PRIVATE, errors.private)):
        for name, rate, asked in _rates(own, rule):
            if rate.mean is None:
                yield f"{name} unknown on {arm} instances"
            elif asked is not None and rate.mean < asked:
                said = f"{name} {rate.mean:.3f} on {arm} instances"
                yield f"{said}, the plan asks for {asked:g} or more"


def _rates(errors: Errors, rule: JudgeRule | None) -> Iterator[tuple[str, Rate, float | None]]:
    yield "sensitivity", errors.sensitivity, None if rule is None else rule.min_sensitivity
    yield "specificity", errors.specificity, None if rule is None else rule.min_specificity


def arm_mean(scores: NDArray[np.float64], stratum: NDArray[np.int64]) -> tuple[float, float] | None:
    """An arm's mean over strata and its standard error; None where a stratum has one instance."""
    parts = [scores[stratum == h] for h in np.unique(stratum)]
    if any(len(part) < 2 for part in parts):
        return None
    variance = sum(float(part.var(ddof=1)) / len(part) for part in parts)
    mean = float(np.mean([part.mean() for part in parts]))
    return mean, math.sqrt(variance) / len(parts)


def errors_json(errors: ErrorsByArm) -> dict[str, Any]:
    """As plain JSON values: rates by arm with intervals and criteria, and p of a difference."""
    return {
        **{
            f"{name}_{arm}": {
                "rate": rate.mean,
                "interval": rate.interval,
                "criteria": rate.answers,
            }
            for arm, own in (("public", errors.public), ("private", errors.private))
            for name, rate, _ in _rates(own, None)
        },
        "p_sensitivity": errors.p_sensitivity,
        "p_specificity": errors.p_specificity,
        "enough": errors.enough,
        "differ": errors.differ,
    }

"""Errors of judges where the truth is known, agreement of graders, and gaps freed of errors.

Sensitivity is the share of met criteria that the judge calls met, specificity the share of unmet
criteria that it calls unmet. What it left without a verdict that can be read is right in neither.
Grades leave such criteria out, so that gaps are freed of the errors among the parsed verdicts only.
Intervals know which criteria share an answer sheet (analysis/stats/proportions.py).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, Unpack

import numpy as np
from pydantic import PlainSerializer

from analysis.data.table import codes_of
from analysis.errors import AnalysisError
from analysis.plan.presets import plan_draws
from analysis.stats.intervals import GapEstimate, t_quantile
from analysis.stats.permutation import (
    Bools,
    Draws,
    Floats,
    Ints,
    permutation_seed,
    permute_gaps,
    two_sided_p,
)
from analysis.stats.proportions import Rate, Z, rate_of, rate_of_counts
from registry.ledger.records import JudgeRule, Plan
from registry.result_row import Arm


def _rate_body(rate: Rate) -> dict[str, Any]:
    return {"rate": rate.mean, "interval": rate.interval, "criteria": rate.answers}


RateBody = Annotated[Rate, PlainSerializer(_rate_body)]  # as report.json has it


@dataclass(frozen=True, slots=True)
class JudgeRates:
    """Error rates of a judge, measured by `judge check` on answers with known truth."""

    judge: str
    digest: str  # of its pin
    criteria: int
    sensitivity: Rate  # share of the met criteria that it marks as met
    specificity: Rate  # share of the unmet criteria that it marks as unmet
    parsed: Rate  # share of its verdicts that could be read
    errors: Errors  # the first two among those
    kappa: float | None  # Cohen's, with the truth, among those


CorrectedGap = tuple[float, tuple[float, float] | None]
"""A gap freed of a judge's errors, with a two-sided 95 % interval; None where the gap's own
variance cannot be estimated."""


def read_rates(body: Mapping[str, Any], place: str) -> JudgeRates:
    """The rates that the verdicts of a stored check come to, worked out anew. Raises
    AnalysisError for anything but the result of a check."""
    try:
        verdicts = [(str(v["sheet"]), v["truth"], v["verdict"]) for v in body["verdicts"]]
        name, digest = str(body["judge"]["name"]), str(body["digest"])
        sound = all(t in (True, False) and v in (True, False, None) for _, t, v in verdicts)
    except (KeyError, TypeError):
        sound = False
    if not sound:
        raise AnalysisError(f"{place}: not the result of a judge check")
    every, among_parsed = (
        Errors(
            *(rate_of((s, v is truth) for s, t, v in some if t is truth) for truth in (True, False))
        )
        for some in (verdicts, [row for row in verdicts if row[2] is not None])
    )
    return JudgeRates(
        judge=name,
        digest=digest,
        criteria=len(verdicts),
        sensitivity=every.sensitivity,
        specificity=every.specificity,
        parsed=rate_of((s, v is not None) for s, _, v in verdicts),
        errors=among_parsed,
        kappa=cohen_kappa([t for _, t, _ in verdicts], [v for _, _, v in verdicts]),
    )


def shortfall(rule: JudgeRule, rates: JudgeRates | None) -> str:
    """The requirements of a plan that a judge misses, in words; "" if it misses none."""
    if rates is None or rates.digest != rule.pin:
        return f"it was not measured; `dosimeter judge check {rule.name}` does"
    reasons = []
    if rates.criteria < rule.min_criteria:
        reasons.append(f"{rates.criteria} criteria, the plan asks for {rule.min_criteria} or more")
    for name, value, least in (
        ("sensitivity", rates.sensitivity.mean, rule.min_sensitivity),
        ("specificity", rates.specificity.mean, rule.min_specificity),
        ("kappa", rates.kappa, rule.min_kappa),
        ("share of parsed verdicts", rates.parsed.mean, rule.min_parsed),
    ):
        if least is not None and (value is None or value < least):
            is_now = "unknown" if value is None else f"{value:.3f}"
            reasons.append(f"{name} {is_now}, the plan asks for {least:g} or more")
    return "; ".join(reasons)


def wave_shortfall(rule: JudgeRule, labels: Labels | None) -> str:
    """The minimum of parsed verdicts, in words, if the judge misses it in the waves that it graded;
    else ""."""
    if rule.min_parsed is None or labels is None or not labels.asked:
        return ""
    share = labels.parsed / labels.asked
    if share >= rule.min_parsed:
        return ""
    asked = f"the plan asks for {rule.min_parsed:g} or more"
    return f"share of parsed verdicts {share:.3f} in the waves, {asked}"


def correct_estimate(gap: GapEstimate, rates: JudgeRates) -> CorrectedGap | None:
    """The gap that a perfect judge would have seen: g' = g / J with J = sensitivity +
    specificity − 1, for errors that are alike in both arms (Rogan and Gladen 1978).

    By the delta method Var g' = Var g / J² + g² (Var se + Var sp) / J⁴, with the variances of the
    rates from Wilson's intervals, which know that a rate of 1 is not certain, and of the sheets.
    The interval has Student's t with Satterthwaite's degrees of freedom, of which only Var g has
    few. Answers that are not there, about which the judge was never asked, score 0 without error
    and are stretched with the rest: if an arm has many such, g' is too large.

    None where the rates are unknown, or do not rule out a judge that does no better than chance.
    """
    se, sp = rates.errors.sensitivity, rates.errors.specificity
    if se.mean is None or sp.mean is None:
        return None
    noise = rate_variance(se) + rate_variance(sp)
    skill = se.mean + sp.mean - 1
    if skill - Z * math.sqrt(noise) <= 0:
        return None
    corrected = gap.gap / skill
    if gap.se is None or gap.df is None:
        return corrected, None
    sampling = (gap.se / skill) ** 2
    variance = sampling + (gap.gap / skill**2) ** 2 * noise
    half = t_quantile(0.975, gap.df * (variance / sampling) ** 2) * math.sqrt(variance)
    return corrected, (corrected - half, corrected + half)


def rate_variance(rate: Rate) -> float:
    """The variance of a rate by Wilson's interval: not 0 even if all verdicts were right."""
    low, high = rate.interval or (0.0, 1.0)
    return float(((high - low) / (2 * Z)) ** 2)


GROUPS = ("task", "dimension", "style")


@dataclass(frozen=True, slots=True)
class Judged:
    """One criterion of one answer sheet, with the truth and a judge's verdict."""

    sheet: str
    task: str
    dimension: str
    style: str  # of the answer: correct, injected, …
    truth: bool
    verdict: bool | None  # None where the judge gave none that can be read


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A judge's rates on some criteria: all, where ``by`` is empty, or those of one group."""

    by: str
    group: str
    sensitivity: Rate
    specificity: Rate
    parsed: Rate


def measure_judge(judged: Sequence[Judged]) -> tuple[Accuracy, ...]:
    """The rates over everything, then by task, dimension and answer style."""
    rows = [_accuracy("", "", judged)]
    for by in GROUPS:
        for group in sorted({getattr(verdict, by) for verdict in judged}):
            rows.append(_accuracy(by, group, [x for x in judged if getattr(x, by) == group]))
    return tuple(rows)


def measure_positions(
    calls: Sequence[Sequence[Judged]], backwards: Sequence[Sequence[Judged]]
) -> tuple[Accuracy, ...]:
    """The rates on what is asked first and last in a call, and on what is asked in reverse order.
    ``backwards`` are the same calls with their criteria in reverse order, so that what stands
    first and what stands last are the same criteria."""
    both = (*calls, *backwards)
    groups = {
        "first": [call[0] for call in both],
        "last": [call[-1] for call in both],
        "as given": list(chain(*calls)),
        "order reversed": list(chain(*backwards)),
    }
    return tuple(_accuracy("position", group, judged) for group, judged in groups.items())


def _accuracy(by: str, group: str, judged: Sequence[Judged]) -> Accuracy:
    sensitivity, specificity = (
        rate_of((row.sheet, row.verdict is truth) for row in judged if row.truth is truth)
        for truth in (True, False)
    )
    parsed = rate_of((row.sheet, row.verdict is not None) for row in judged)
    return Accuracy(by, group, sensitivity, specificity, parsed)


def cohen_kappa(
    first: Sequence[Hashable | None], second: Sequence[Hashable | None]
) -> float | None:
    """Agreement of two graders beyond chance (Cohen 1960), over what both have graded; None where
    that is nothing, or where both only ever say the same one thing. Raises AnalysisError for
    sequences of different length."""
    from statsmodels.stats.inter_rater import cohens_kappa

    if len(first) != len(second):
        raise AnalysisError("graders to compare must have graded the same things, in one order")
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not both:
        return None
    values = {value: place for place, value in enumerate(dict.fromkeys(chain(*both)))}
    if len(values) == 1:
        return None
    table = np.zeros((len(values), len(values)))
    np.add.at(table, ([values[a] for a, _ in both], [values[b] for _, b in both]), 1)
    return float(cohens_kappa(table, return_results=False))


LABELS = 400  # criteria labelled by hand that a correction asks for
LEVEL = 0.05


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
        """True if either rate is shown to differ."""
        return bool(self.differing)

    @property
    def differing(self) -> tuple[str, ...]:
        """The rates that are shown to differ; each p is compared with half of .05."""
        p = {"sensitivity": self.p_sensitivity, "specificity": self.p_specificity}
        return tuple(name for name, p_value in p.items() if p_value < LEVEL / 2)


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


ErrorsBody = Annotated[ErrorsByArm, PlainSerializer(_errors_body)]  # as report.json has it


def correct_by_arm(
    public: tuple[float, float], private: tuple[float, float], errors: ErrorsByArm
) -> CorrectedGap | None:
    """The gap where each arm has its own errors: π of public minus π of private, with an interval
    by the delta method. ``public`` and ``private`` are an arm's mean and its standard error.

    Of criteria of which the share π is met, a judge of sensitivity se and specificity sp passes the
    share p = se·π + (1 − sp)(1 − π), so that π = (p + sp − 1)/J with J = se + sp − 1. Errors that
    are alike in both arms only shrink a gap, to J times what it is: ``correct_estimate`` divides by
    J. Errors that differ make one: a judge that wrongly passes 3 % more on public ones adds up to
    3 points.

    None where an arm has no rates, or rates that do not rule out a judge no better than chance.
    """
    first, second = _corrected(*public, errors.public), _corrected(*private, errors.private)
    if first is None or second is None:
        return None
    gap, se = first[0] - second[0], math.sqrt(first[1] + second[1])
    return gap, (gap - Z * se, gap + Z * se)


def compare_counts(
    right: Floats, total: Floats, stratum: Ints, public: Bools, **draws: Unpack[Draws]
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
    excess = (right - total * pooled)[:, :, None]
    gaps = permute_gaps(excess, stratum, public, **draws)
    p = two_sided_p(gaps)
    by_arm = [
        Errors(*(rate_of_counts(right[arm, kind], total[arm, kind], 0) for kind in (0, 1)))
        for arm in (public, ~public)
    ]
    rates = [rate for errors in by_arm for rate in (errors.sensitivity, errors.specificity)]
    enough = sum(errors.labels for errors in by_arm) >= LABELS and all(r.answers for r in rates)
    return ErrorsByArm(by_arm[0], by_arm[1], float(p[0]), float(p[1]), enough)


def _corrected(mean: float, se: float, errors: Errors) -> tuple[float, float] | None:
    """π of an arm, and its variance."""
    met, unmet = errors.sensitivity, errors.specificity
    if met.mean is None or unmet.mean is None:
        return None
    skill, noise = met.mean + unmet.mean - 1, (rate_variance(met), rate_variance(unmet))
    if skill <= Z * math.sqrt(sum(noise)):
        return None
    rate = (mean + unmet.mean - 1) / skill
    known = rate**2 * noise[0] + (1 - rate) ** 2 * noise[1]
    return rate, (se**2 + known) / skill**2


@dataclass(slots=True)
class Labels:
    """Counts of a judge's verdicts on criteria of known truth, by instance: met and judged met,
    met, not met and judged not met, not met. Of all verdicts ``asked``, those are ``parsed``."""

    counts: dict[str, list[int]] = field(default_factory=dict, repr=False)
    places: dict[str, tuple[str, Arm]] = field(default_factory=dict, repr=False)  # stratum, arm
    asked: int = 0
    parsed: int = 0

    def add(
        self, instance: str, stratum: str, arm: Arm, verdicts: Iterable[tuple[bool, bool | None]]
    ) -> None:
        """Count an answer's criteria: the truth of each, and the judge's verdict, None if it could
        not be parsed."""
        self.places[instance] = stratum, arm
        counts = self.counts.setdefault(instance, [0, 0, 0, 0])
        for truth, verdict in verdicts:
            self.asked += 1
            if verdict is None:
                continue
            self.parsed += 1
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
    draws = plan_draws(plan, permutation_seed(registration, "C3", "errors", judge))
    return compare_counts(counts[:, [0, 2]], counts[:, [1, 3]], stratum, public, **draws)


def arm_shortfall(rule: JudgeRule | None, errors: ErrorsByArm | None) -> str:
    """Return the reason why no gap is corrected by arm; "" if it may be. ``rule`` is the plan's
    requirement on the judge: it applies in either arm."""
    if errors is None:
        return "no criterion of known truth in both arms of every stratum"
    return "; ".join(_shortfalls(rule, errors))


def _shortfalls(rule: JudgeRule | None, errors: ErrorsByArm) -> Iterator[str]:
    least = LABELS if rule is None else max(LABELS, rule.min_criteria)
    count = errors.public.labels + errors.private.labels
    if count < least:
        yield f"{count} criteria of known truth, {least} or more are wanted"
    for arm, rates in ((Arm.PUBLIC, errors.public), (Arm.PRIVATE, errors.private)):
        for name in ("sensitivity", "specificity"):
            mean, asked = getattr(rates, name).mean, getattr(rule, f"min_{name}", None)
            if mean is None:
                yield f"{name} unknown on {arm} instances"
            elif asked is not None and mean < asked:
                shortfall = f"{name} {mean:.3f} on {arm} instances"
                yield f"{shortfall}, the plan asks for {asked:g} or more"


def arm_mean(scores: Floats, stratum: Ints) -> tuple[float, float] | None:
    """An arm's mean over strata and its standard error; None where a stratum has one instance."""
    parts = [scores[stratum == h] for h in np.unique(stratum)]
    if any(len(part) < 2 for part in parts):
        return None
    variance = sum(float(part.var(ddof=1)) / len(part) for part in parts)
    mean = float(np.mean([part.mean() for part in parts]))
    return mean, math.sqrt(variance) / len(parts)

"""What a judge is worth, and gaps freed of its errors (spec/statistics.md, C3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.errors import AnalysisError
from analysis.judges.agreement import cohen_kappa, correct_gap
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

"""Verdicts on models, and the rule that gives them (spec/statistics.md, P3, P5, P6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from analysis.stats import GapEstimate

Word = Literal["contaminated", "no material inflation", "inconclusive", "withheld"]

CONTAMINATED: Word = "contaminated"
NO_INFLATION: Word = "no material inflation"
INCONCLUSIVE: Word = "inconclusive"
WITHHELD: Word = "withheld"  # a control failed


@dataclass(frozen=True, slots=True)
class Rule:
    """The alpha and margin of a verdict, and how the hypothesis is named."""

    alpha: float  # of the look, one-sided
    margin: float
    hypothesis: str = "primary"
    exploratory: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """One model at one wave. ``estimate`` is None if an arm of a stratum has no scored seed."""

    model: str
    wave: int
    verdict: Word
    estimate: float | None  # public minus private, of the first outcome
    interval: tuple[float, float]  # two-sided 95 %
    upper: float  # one-sided 95 % bound
    p: float  # one-sided, public above private
    p_adjusted: float  # over the models of the look
    n_public: int  # seeds
    n_private: int
    alpha: float  # that p_adjusted was held against
    hypothesis: str = "primary"
    exploratory: bool = False
    note: str = ""
    se: float | None = None  # of the estimate


def decide(
    model: str, wave: int, gap: GapEstimate, p: float, p_adjusted: float, rule: Rule
) -> Verdict:
    """Contaminated if p_adjusted ≤ alpha; else no material inflation if the upper bound lies
    below the margin; else inconclusive. Both true is contaminated, with a note."""
    detected, below = p_adjusted <= rule.alpha, gap.upper < rule.margin
    word = CONTAMINATED if detected else NO_INFLATION if below else INCONCLUSIVE
    note = ""
    if detected and below:
        note = "detectable but below the margin"
    elif gap.se is None:
        note = "interval not estimable: one seed in an arm of a stratum, or scores without spread"
    return Verdict(
        model,
        wave,
        word,
        gap.gap,
        gap.interval,
        gap.upper,
        p,
        p_adjusted,
        gap.n_public,
        gap.n_private,
        rule.alpha,
        rule.hypothesis,
        rule.exploratory,
        note,
        gap.se,
    )


def decide_nothing(model: str, wave: int, n: tuple[int, int], rule: Rule) -> Verdict:
    """Inconclusive, for a model without any scored seed in an arm of a stratum."""
    return Verdict(
        model,
        wave,
        INCONCLUSIVE,
        None,
        (-1.0, 1.0),
        1.0,
        1.0,
        1.0,
        *n,
        rule.alpha,
        rule.hypothesis,
        rule.exploratory,
        "not testable: no scored seed in an arm of a stratum",
    )


def withhold(verdict: Verdict, why: str) -> Verdict:
    """The same numbers without a verdict, since a control failed (spec/statistics.md, P6)."""
    return replace(verdict, verdict=WITHHELD, note=f"withheld: {why}")

"""Verdicts on models, and the rule that gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NewType

from analysis.stats.clearing import Bound
from analysis.stats.intervals import GapEstimate

Word = NewType("Word", str)

CONTAMINATED = Word("contaminated")
NO_INFLATION = Word("no inflation of the published instances above the margin")
INCONCLUSIVE = Word("inconclusive")
WITHHELD = Word("withheld")  # a control failed
BOUNDED = (NO_INFLATION, INCONCLUSIVE)  # decided by the bound
# Of arms that were not allotted at random:
BEYOND = Word("beyond what unexposed models show")
WITHIN = Word("within what unexposed models show")
NOT_COMPARABLE = Word("not comparable")
ESTIMATE = Word("an estimate without a verdict")
NOT_TESTABLE = "not testable: no scored seed in an arm of a stratum"


@dataclass(frozen=True, slots=True)
class Rule:
    """The alpha and margin of a verdict, and how the hypothesis is named."""

    alpha: float  # of the look, one-sided
    margin: float
    hypothesis: str = "primary"
    exploratory: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """The numbers of a model that its verdict rests on, the gap that of ``outcome``. ``p_floor`` is
    the least adjusted p that the permutations can show. ``doubt`` says why the model is not cleared
    whatever the bounds."""

    outcome: str
    gap: GapEstimate
    p: float
    p_adjusted: float
    p_floor: float
    bound: Bound
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One model at one wave. ``estimate`` is None if an arm of a stratum has no scored seed.

    Estimate, interval and ``upper`` are those of ``outcome``: the one with the largest z, which
    drives p, or if the model is cleared the one with the largest bound. If the data clear the
    model, ``deciding_bound`` lies below the margin, and ``deciding_lower``, where there is one,
    above −margin; the converse holds but for the doubts that the note names.
    """

    model: str
    wave: int
    verdict: Word
    estimate: float | None = None  # public minus private
    interval: tuple[float, float] = (-1.0, 1.0)  # two-sided 95 %
    upper: float = 1.0  # one-sided 95 % bound
    p: float = 1.0  # one-sided, public above private
    p_adjusted: float = 1.0  # over the models of the look
    n_public: int  # seeds
    n_private: int
    alpha: float  # that p_adjusted was held against
    hypothesis: str = "primary"
    exploratory: bool = False
    note: str = ""
    se: float | None = None  # of the estimate
    outcome: str = ""
    deciding_bound: float = 1.0
    bound_outcome: str = ""
    deciding_lower: float | None = None
    p_clear: float = 1.0  # of a gap at the margin or above, adjusted over the models
    p_floor: float = 0.0  # the least p_adjusted that the permutations can show


def decide(model: str, wave: int, found: Evidence, rule: Rule) -> Verdict:
    """Contaminated if p_adjusted ≤ alpha; else no inflation above the margin if the bounds clear
    the model; else inconclusive. Both true is contaminated, with a note."""
    gap, bound, cleared = found.gap, found.bound, found.bound.cleared and not found.doubt
    detected = found.p_adjusted <= rule.alpha
    word = CONTAMINATED if detected else NO_INFLATION if cleared else INCONCLUSIVE
    note = ""
    if detected and cleared:
        note = "detectable but below the margin"
    elif word == INCONCLUSIVE and found.doubt:
        note = found.doubt
    elif gap.se is None:
        note = "interval not estimable: one instance in an arm, or scores alike within each arm"
    elif word == INCONCLUSIVE and bound.deciding_bound < rule.margin:
        note = (
            "the bound lies below the margin, but with fewer than 50 instances an arm a gap so far "
            "below zero clears nothing"
        )
    if not detected and found.p_floor > rule.alpha:
        least = f"{found.p_floor:.2g}, and a claim needs {rule.alpha:.2g}"
        note = "; ".join(filter(None, [f"too few instances: the least p is {least}", note]))
    parts = ((found, _EVIDENCE), (gap, _GAP), (bound, _BOUND), (rule, _RULE))
    numbers: dict[str, Any] = {name: getattr(part, name) for part, names in parts for name in names}
    return Verdict(model=model, wave=wave, verdict=word, estimate=gap.gap, note=note, **numbers)


_EVIDENCE = ("p", "p_adjusted", "p_floor", "outcome")
_GAP = ("interval", "upper", "se", "n_public", "n_private")
_BOUND = ("deciding_bound", "bound_outcome", "deciding_lower", "p_clear")
_RULE = ("alpha", "hypothesis", "exploratory")


def decide_nothing(
    model: str, wave: int, n: tuple[int, int], rule: Rule, why: str = NOT_TESTABLE
) -> Verdict:
    """Inconclusive, and no gap: by default for a model without any scored seed in an arm of a
    stratum."""
    return Verdict(
        model=model,
        wave=wave,
        verdict=INCONCLUSIVE,
        n_public=n[0],
        n_private=n[1],
        alpha=rule.alpha,
        hypothesis=rule.hypothesis,
        exploratory=rule.exploratory,
        note=why,
    )


def leave_open(verdict: Verdict, why: str) -> Verdict:
    """The same numbers, undecided: whatever the test says, it cannot be believed here."""
    return replace(verdict, verdict=INCONCLUSIVE, note=why)


def withhold(verdict: Verdict, why: str) -> Verdict:
    """The same numbers without a verdict, since a control failed."""
    return replace(verdict, verdict=WITHHELD, note=why)

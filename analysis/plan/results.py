"""The rule on a look, with all of it that a report shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.data.seed_means import SeedMeans
from analysis.plan.missing import (
    CURVE,
    NO_RULE,
    MissingRuns,
    TippingPoint,
    TippingStep,
    fill_missing,
    missingness_tests,
    tipping_share,
)
from analysis.plan.presets import look_alpha
from analysis.plan.primary import FamilyTest, LookData, family_tests
from analysis.plan.rule import Decisions, FilledClaim, apply_rule
from analysis.plan.verdict import (
    CONTAMINATED,
    INCONCLUSIVE,
    NO_INFLATION,
    Evidence,
    Rule,
    Verdict,
    Word,
    decide,
    decide_nothing,
)
from analysis.stats.adjustment import count_apart
from analysis.stats.clearing import Clearing, Doubts, clear_models, find_doubts
from analysis.stats.intervals import (
    Equivalence,
    GapEstimate,
    GapEstimates,
    counted,
    estimate_gap,
    estimate_gaps,
    signed,
    tost,
)
from analysis.stats.permutation import permutation_seed
from registry.ledger.records import Plan


@dataclass(frozen=True, slots=True)
class OutcomeGap:
    """One outcome's part in the test: its gap with the two-sided 95 % interval, the gap over its
    permutation SD, and the share of variance that calibrating takes off, below 0 where it adds."""

    outcome: str
    gap: float
    interval: tuple[float, float]
    z: float
    rho2: float


@dataclass(frozen=True, slots=True)
class StratumGap:
    """The gap of the verdict's outcome in one stratum, with its two-sided 95 % interval (None where
    scores do not differ) and the instances of each arm."""

    stratum: str
    gap: float
    interval: tuple[float, float] | None
    n_public: int
    n_private: int


LEAST_APART = 5  # scores of a model that differ from their stratum's median, for clearing


@dataclass(frozen=True, slots=True)
class PrimaryResult:
    """One model at one look. ``equivalence``, ``unadjusted`` and ``strata`` are of the verdict's
    outcome; ``strata`` leaves out those with a single instance in an arm, whose gap would show its
    score."""

    verdict: Verdict
    missing: MissingRuns
    equivalence: Equivalence | None = None
    outcomes: tuple[OutcomeGap, ...] = ()
    unadjusted: GapEstimate | None = None
    p_unadjusted: float = 1.0
    p_adjusted_unadjusted: float = 1.0  # over the models, without the covariate
    strata: tuple[StratumGap, ...] = ()
    p_floor_unadjusted: float = 0.0

    @property
    def model(self) -> str:
        """The model's name."""
        return self.verdict.model


@dataclass(frozen=True, slots=True, eq=False)
class _Tested:
    """The testable columns of a look with their tests, by place among them."""

    data: LookData
    columns: tuple[int, ...]
    decisions: Decisions
    gaps: GapEstimates
    doubts: Doubts
    clearing: Clearing
    floor: float  # of adjusted p
    rule: Rule


def look_results(
    plan: Plan,
    data: LookData,
    registration: str,
    *,
    hypothesis: str = "primary",
    exploratory: bool = False,
) -> tuple[PrimaryResult, ...]:
    """The plan's result on each model of a look, in the order of the columns. A model without a
    score in an arm of a stratum is not tested, and its verdict is inconclusive."""
    means = data.means
    if not means.columns:
        return ()
    rule = Rule(look_alpha(plan), plan.margin, hypothesis, exploratory)
    testable = [m for m in range(len(means.columns)) if means.has_both_arms(m)]
    seed = permutation_seed(registration, str(means.columns[0].wave))
    every = data.studies(range(len(means.columns)))
    missing = [NO_RULE] * len(means.columns)
    if plan.standard is not None:
        missing = missingness_tests(plan, every, seed)
    results = {
        m: _not_tested(means, m, missing[m], rule)
        for m in range(len(means.columns))
        if m not in testable
    }
    if testable:
        tested = _test(plan, data, testable, registration, rule)
        plain = tested.decisions.test
        if data.covered:
            plain = family_tests(plan, means.values, data.studies(testable), seed)
        for place, m in enumerate(testable):
            results[m] = _result(tested, place, plain, missing[m])
    return tuple(results[m] for m in range(len(means.columns)))


def _test(
    plan: Plan, data: LookData, testable: Sequence[int], registration: str, rule: Rule
) -> _Tested:
    residuals, means = data.adjusted.residuals, data.means
    by_holm = plan.multiplicity == "holm"
    seed = permutation_seed(registration, str(means.columns[0].wave))
    decisions = apply_rule(plan, data.studies(testable), residuals, seed)
    scores = residuals[:, list(testable)]
    gaps = estimate_gaps(scores, means.stratum, means.public)
    floor = decisions.test.floor * (len(testable) if by_holm else 1)
    doubts = find_doubts(scores, means.stratum, means.public, data.controls)
    clearing = clear_models(gaps, plan.margin, doubts)
    return _Tested(
        data=data,
        columns=tuple(testable),
        decisions=decisions,
        gaps=gaps,
        doubts=doubts,
        clearing=clearing,
        floor=floor,
        rule=rule,
    )


def _not_tested(means: SeedMeans, m: int, missing: MissingRuns, rule: Rule) -> PrimaryResult:
    column, there = means.columns[m], ~np.isnan(means.values[:, m, 0])
    n = int((there & means.public).sum()), int((there & ~means.public).sum())
    return PrimaryResult(decide_nothing(column.model, column.wave, n, rule), missing)


def _result(tested: _Tested, place: int, plain: FamilyTest, missing: MissingRuns) -> PrimaryResult:
    m, means = tested.columns[place], tested.data.means
    verdict, outcome = _verdict(tested, place)
    missing = _consequences(tested, place, outcome, verdict.verdict, missing)
    gap = tested.gaps.one(place, outcome)
    return PrimaryResult(
        verdict=_survive(verdict, missing),
        equivalence=tost(gap.gap, gap.se, gap.df, tested.rule.margin),
        outcomes=tuple(_outcome_gaps(tested, place)),
        missing=missing,
        unadjusted=estimate_gap(means.values[:, m, outcome], means.stratum, means.public),
        p_unadjusted=float(plain.p[0, place]),
        p_adjusted_unadjusted=float(plain.adjusted[0, place]),
        strata=() if verdict.estimate is None else tuple(_stratum_gaps(tested.data, m, outcome)),
        p_floor_unadjusted=plain.floor,
    )


def _stratum_gaps(data: LookData, m: int, outcome: int) -> Iterator[StratumGap]:
    means, scores = data.means, data.adjusted.residuals[:, m, outcome]
    for code, name in enumerate(means.strata):
        here = (means.stratum == code) & ~np.isnan(scores)
        public = means.public[here]
        if min(public.sum(), (~public).sum()) > 1:
            found = estimate_gap(scores[here], means.stratum[here], public)
            interval = None if found.se is None else found.interval
            yield StratumGap(name, found.gap, interval, found.n_public, found.n_private)


def _outcome_gaps(tested: _Tested, place: int) -> Iterator[OutcomeGap]:
    adjusted, m = tested.data.adjusted, tested.columns[place]
    for o, name in enumerate(tested.data.means.outcomes):
        gap, z = tested.gaps.one(place, o), float(tested.decisions.test.z[0, place, o])
        yield OutcomeGap(name, gap.gap, gap.interval, z, float(adjusted.rho2[m, o]))


def _verdict(tested: _Tested, place: int) -> tuple[Verdict, int]:
    """The verdict on one model by its data as they are, and the outcome that it is of."""
    test, clearing, names = tested.decisions.test, tested.clearing, tested.data.means.outcomes
    column = tested.data.means.columns[tested.columns[place]]
    p_adjusted, doubt = float(test.adjusted[0, place]), _doubt(tested, place)
    claimed, cleared = p_adjusted <= tested.rule.alpha, clearing.cleared[place] and not doubt
    by_bound = cleared and not claimed
    outcome = int(clearing.outcome[place] if by_bound else test.z[0, place].argmax())
    gap, p = tested.gaps.one(place, outcome), float(test.p[0, place])
    found = Evidence(
        outcome=names[outcome],
        gap=gap,
        p=p,
        p_adjusted=p_adjusted,
        p_floor=tested.floor,
        bound=clearing.one(place, names),
        doubt=doubt,
    )
    verdict = decide(column.model, column.wave, found, tested.rule)
    own, stratum = tested.data.means.values[:, tested.columns[place]], tested.data.means.stratum
    if not any(count_apart(scores, stratum) for scores in own.T):
        n = gap.n_public, gap.n_private  # any gap is the control models'
        verdict = decide_nothing(column.model, column.wave, n, tested.rule, doubt)
    return verdict, outcome


def _doubt(tested: _Tested, place: int) -> str:
    """The reason why a model is not cleared whatever its bounds; "" without one."""
    data, m, doubts = tested.data, tested.columns[place], tested.doubts
    if (apart := count_apart(data.means.values[:, m, 0], data.means.stratum)) < LEAST_APART:
        return (
            f"no information: {counted(apart, 'score')} of the model differ from the others of "
            f"their stratum, and it takes {LEAST_APART}"
        )
    if (code := int(doubts.stratum[place])) >= 0:
        name, outcome = data.means.strata[code], int(tested.decisions.test.z[0, place].argmax())
        gap = next(g.gap for g in _stratum_gaps(data, m, outcome) if g.stratum == name)
        return f"stratum {name} by itself has a significant gap of {signed(gap)} points"
    if doubts.controls:
        return (
            "the control models' own scores are higher on public instances, or differ by arm "
            "between the models: what calibrates the scores may have leaked too"
        )
    return ""


def _consequences(
    tested: _Tested, place: int, outcome: int, word: Word, missing: MissingRuns
) -> MissingRuns:
    """A model's missing runs with the tipping point of its verdict."""
    claim = next((c for c in tested.decisions.filled if c.place == place), None)
    if claim is None:
        return missing
    tipping = None
    if word == CONTAMINATED:
        tipping = _tipping_of_claim(claim, outcome, missing)
    elif word == NO_INFLATION:
        tipping = _tipping_of_clearing(tested, place, outcome, missing)
    blind_gap, blind_p = float(claim.gaps[0, outcome]), float(claim.p[0])
    return replace(missing, blind_gap=blind_gap, blind_p=blind_p, tipping=tipping)


def _tipping_of_claim(claim: FilledClaim, outcome: int, missing: MissingRuns) -> TippingPoint:
    gaps, ps = claim.gaps[:, outcome].tolist(), claim.p.tolist()
    curve = tuple(TippingStep(*step) for step in zip(CURVE, gaps, ps, strict=True))
    return TippingPoint(CONTAMINATED, claim.share, _runs(claim.share, missing), curve)


def _tipping_of_clearing(
    tested: _Tested, place: int, outcome: int, missing: MissingRuns
) -> TippingPoint:
    """The other models' missing runs stay missing."""
    means, margin = tested.data.means, tested.rule.margin
    study = tested.data.studies([tested.columns[place]])
    scores = study.scores.pick(study.members[0])
    fills = fill_missing(scores, means.stratum, means.public, against_claim=False)

    def at(share: float) -> tuple[float, Clearing]:
        scores = tested.data.adjusted.residuals[:, list(tested.columns)].copy()
        scores[:, place] = fills.at(share)[:, 0]
        gaps = estimate_gaps(scores, means.stratum, means.public)
        return float(gaps.gap[place, outcome]), clear_models(gaps, margin, tested.doubts)

    share = tipping_share(lambda t: bool(at(t)[1].cleared[place]))
    steps = [(t, *at(t)) for t in CURVE]
    curve = tuple(TippingStep(t, gap, float(found.adjusted[place])) for t, gap, found in steps)
    return TippingPoint(NO_INFLATION, share, _runs(share, missing), curve)


def _runs(share: float | None, missing: MissingRuns) -> int | None:
    """The number of missing runs that a share of them makes, rounded up."""
    return None if share is None else math.ceil(share * (missing.public + missing.private) - 1e-9)


def _survive(verdict: Verdict, missing: MissingRuns) -> Verdict:
    """The verdict, inconclusive if missing runs could undo it."""
    tipping = missing.tipping
    if tipping is None or tipping.share is None:
        return verdict
    lost = counted(missing.public + missing.private, "missing run")
    why = f"{tipping.decision}, if missing runs resemble the others"
    if tipping.runs:
        why += f"; {tipping.runs} of {lost}, as adverse as can be, would undo it"
    else:
        why += f"; with each of {lost} at the mean of both arms it does not hold"
    note = f"{why}; {verdict.note}" if verdict.note else why
    return replace(verdict, verdict=INCONCLUSIVE, note=note)

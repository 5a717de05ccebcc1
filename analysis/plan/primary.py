"""The primary rule of a look: adjust, permute within blocks, max-T, p, multiplicity, alpha.

spec/statistics.md, D4, D5, P1 to P3, P5, P6. ``apply_rule`` runs the rule on B studies at once: a
look is one study, power and calibration are many. A plan without the rules of standard-v1
(basic-v1) runs the same rule with no covariate and no bounds on missing runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.data import SeedMeans
from analysis.errors import AnalysisError
from analysis.plan.presets import look_alpha, plan_draws
from analysis.plan.verdict import INCONCLUSIVE, NO_INFLATION, Rule, Verdict, decide, decide_nothing
from analysis.stats import (
    NO_SPREAD,
    Adjusted,
    Bools,
    Draws,
    Equivalence,
    Floats,
    GapEstimate,
    Ints,
    Permuted,
    adjust,
    adverse_bounds,
    blocks_of,
    estimate_gap,
    holm,
    lost_share,
    max_t,
    p_values,
    p_words,
    permutation_sd,
    permutation_seed,
    permute_blocks,
    pre_exposure_means,
    tost,
    two_sided_p,
    unadjusted,
    westfall_young,
)
from registry.ledger import Plan, StandardRules

_MOST = 8_000_000  # permuted gaps in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """Seed means of models on the same instances: ``values`` (n, columns, outcomes), NaN if
    missing; ``covariate`` (n, outcomes) or of the values' shape, None for no adjustment;
    ``missing`` and ``runs`` (n, columns) count lost runs and owed runs, None if none is lost."""

    values: Floats
    covariate: Floats | None = None
    missing: Ints | None = None
    runs: Ints | None = None

    @property
    def counts(self) -> tuple[Ints, Ints]:
        """Lost runs and owed runs (n, columns); one run a score if they are not given."""
        if self.missing is not None and self.runs is not None:
            return self.missing, self.runs
        there = (~np.isnan(self.values[:, :, 0])).astype(np.int64)
        return np.zeros_like(there), there

    def pick(self, columns: Ints) -> ModelScores:
        """The scores of some columns."""
        x, (missing, runs) = self.covariate, self.counts
        chosen = x if x is None or x.ndim == 2 else x[:, columns]
        return ModelScores(self.values[:, columns], chosen, missing[:, columns], runs[:, columns])

    def join(self, other: ModelScores) -> ModelScores:
        """These columns, then those of another value."""
        values = np.concatenate([self.values, other.values], axis=1)
        missing, runs = (
            np.concatenate(parts, axis=1) for parts in zip(self.counts, other.counts, strict=True)
        )
        if self.covariate is None and other.covariate is None:
            return ModelScores(values, None, missing, runs)
        x = np.concatenate([self._wide_covariate(), other._wide_covariate()], axis=1)
        return ModelScores(values, x, missing, runs)

    def adjusted(self, stratum: Ints) -> Adjusted:
        """The scores adjusted by the covariate (D5), as they are without one."""
        if self.covariate is None:
            return unadjusted(self.values)
        return adjust(self.values, self.covariate, stratum)

    def _wide_covariate(self) -> Floats:
        """The covariate in the shape of the values; NaN, which adjusts nothing, without one."""
        x = self.covariate
        if x is None:
            return np.full(self.values.shape, np.nan)
        return np.broadcast_to(x[:, None] if x.ndim == 2 else x, self.values.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Studies:
    """B studies of M models each, on the same instances.

    ``members`` (B, M) are each study's columns of ``scores``, over which its p are adjusted;
    studies may share columns. ``public`` (n, B) are the labels of each study, or (n, 1) if all
    have the same; every study has the same count of public instances in each tranche of each
    stratum. ``stratum`` and ``tranche`` are (n,).
    """

    scores: ModelScores
    members: Ints
    public: Bools
    stratum: Ints
    tranche: Ints

    @property
    def block(self) -> Ints:
        """Codes (n,) of the blocks within which labels are permuted."""
        return blocks_of(self.stratum, self.tranche)

    def labels(self, study: int) -> Bools:
        """The labels (n,) of one study."""
        return self.public[:, study if self.public.shape[1] > 1 else 0]

    def pick(self, studies: Ints) -> Studies:
        """Some of the studies."""
        public = self.public[:, studies] if self.public.shape[1] > 1 else self.public
        return replace(self, members=self.members[studies], public=public)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyTest:
    """P1 and P3 by study and model: ``gaps`` and ``z`` (gap over its permutation SD) are
    (B, M, outcomes), ``p`` and ``adjusted`` (B, M)."""

    gaps: Floats
    z: Floats
    p: Floats
    adjusted: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MissingTest:
    """Shares of owed runs that are missing in each arm, NaN if none was owed, and the two-sided
    permutation p of their difference; all (B, M)."""

    share_public: Floats
    share_private: Floats
    p: Floats

    def needs_bound(self, rules: StandardRules) -> Bools:
        """True for each claim that must survive the adverse bound (D4, ii)."""
        most = np.fmax(self.share_public, self.share_private)
        return np.asarray((self.p < rules.missing_alpha) | (most > rules.missing_share))


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The rule's result by study and model (B, M). ``claimed``: adjusted p at or below the look's
    alpha; ``unbound``: the claim does not survive the adverse bound of missing runs. ``missing``
    and ``bound`` (adjusted p and gap of the first outcome under that bound) are None, or NaN,
    where they were not computed."""

    test: FamilyTest
    claimed: Bools
    unbound: Bools
    missing: MissingTest | None = None
    bound_gap: Floats | None = None
    bound_p: Floats | None = None

    @property
    def contaminated(self) -> Bools:
        """True for each model that the plan calls contaminated (B, M)."""
        return self.claimed & ~self.unbound


def apply_rule(
    plan: Plan, studies: Studies, values: Floats, seed: int, *, first_only: bool = False
) -> Decisions:
    """The plan's rule of one look on each study. ``values`` (n, columns, outcomes) are the scores
    as adjusted; all studies share the permutations that ``seed`` draws.

    ``first_only`` examines the missing runs of the first model of each study only, and only if it
    is claimed: enough for its verdict, and much quicker over many studies.
    """
    test = family_tests(plan, values, studies, seed)
    claimed = test.adjusted <= look_alpha(plan)
    unbound, rules = np.zeros_like(claimed), plan.standard
    missing, _ = studies.scores.counts
    if rules is None or not (missing.any() or not first_only):
        return Decisions(test, claimed, unbound)
    chosen = np.flatnonzero(claimed[:, 0]) if first_only else np.arange(len(claimed))
    examined = studies.pick(chosen)
    if first_only:
        examined = replace(examined, members=examined.members[:, :1])
    lost = missingness_tests(plan, examined, seed)
    needs = np.zeros_like(claimed)
    needs[chosen, : examined.members.shape[1]] = lost.needs_bound(rules)
    gap, p = np.full(claimed.shape, np.nan), np.full(claimed.shape, np.nan)
    for study in np.flatnonzero(needs.any(axis=1)).tolist():
        bound = _bound_test(plan, studies, study, seed)
        gap[study], p[study] = bound.gaps[0, :, 0], bound.adjusted[0]
    gap, p = np.where(needs, gap, np.nan), np.where(needs, p, np.nan)
    unbound = claimed & (p > look_alpha(plan))
    return Decisions(test, claimed, unbound, lost, gap, p)


def family_tests(plan: Plan, values: Floats, studies: Studies, seed: int) -> FamilyTest:
    """The permutation test of each model of each study, and p adjusted over the models of a study.
    ``values`` (n, columns, outcomes) take the place of the studies' scores."""
    shape = (*studies.members.shape, values.shape[2])
    tests = FamilyTest(np.empty(shape), np.zeros(shape), np.empty(shape[:2]), np.empty(shape[:2]))
    for study, gaps in enumerate(_permuted_studies(plan, values, studies, seed)):
        sd = permutation_sd(gaps)
        statistics = max_t(gaps, sd)
        tests.gaps[study] = gaps.observed
        np.divide(gaps.observed, sd, out=tests.z[study], where=sd > NO_SPREAD)
        p = tests.p[study] = p_values(statistics)
        by_holm = plan.multiplicity == "holm"
        tests.adjusted[study] = holm(p) if by_holm else westfall_young(statistics)
    return tests


def missingness_tests(plan: Plan, studies: Studies, seed: int) -> MissingTest:
    """Missingness by arm (spec/statistics.md, D4, i): the gap of the instances' shares of lost
    runs, averaged over blocks, under the labels of P1. Raises AnalysisError if more runs are
    missing than were owed."""
    missing, runs = studies.scores.counts
    if (missing > runs).any() or (missing < 0).any():
        raise AnalysisError("missing runs must lie between 0 and the runs that were owed")
    p = np.ones(studies.members.shape)
    if missing[:, studies.members].any():
        share = lost_share(missing, runs)[:, :, None]
        whole = replace(studies, stratum=studies.block, tranche=np.zeros_like(studies.tranche))
        p = np.array([two_sided_p(g) for g in _permuted_studies(plan, share, whole, seed)])
    shares = np.full((2, *studies.members.shape), np.nan)
    for study, columns in enumerate(studies.members):
        public = studies.labels(study)
        for place, arm in enumerate((public, ~public)):
            lost, owed = (part[arm][:, columns].sum(axis=0) for part in (missing, runs))
            np.divide(lost, owed, out=shares[place, study], where=owed > 0)
    return MissingTest(shares[0], shares[1], p)


def _bound_test(plan: Plan, studies: Studies, study: int, seed: int) -> FamilyTest:
    """The test of one study with every missing run filled against a claim of contamination."""
    columns, public = studies.members[study], studies.labels(study)
    lowest, _ = fill_missing(studies.scores.pick(columns), studies.stratum, public)
    alone = replace(studies, members=np.arange(len(columns))[None], public=public[:, None])
    return family_tests(plan, lowest, alone, seed)


def fill_missing(scores: ModelScores, stratum: Ints, public: Bools) -> tuple[Floats, Floats]:
    """Adjusted scores with all that is missing filled to the lowest gap and to the highest (D4)."""
    low, high = adverse_bounds(scores.values, public, lost_share(*scores.counts))
    low, high = (replace(scores, values=v).adjusted(stratum).residuals for v in (low, high))
    return low, high


def _permuted_studies(
    plan: Plan, values: Floats, studies: Studies, seed: int
) -> Iterator[Permuted]:
    """Gaps of each study's members, observed under its labels and permuted.

    The permuted labels do not depend on the observed ones, whose counts are the same in all
    studies: one draw serves every column, and a column that studies share is permuted once.
    """
    members, own_labels = studies.members, studies.public.shape[1] > 1
    if not members.size:
        return
    uses = np.bincount(members.ravel(), minlength=values.shape[1])
    common = np.flatnonzero(uses > 1)

    def permute(columns: Ints, study: int, draws: Draws) -> Permuted:
        chosen, labels = values[:, columns], studies.labels(study)
        return permute_blocks(chosen, studies.stratum, studies.tranche, labels, **draws)

    draws = plan_draws(plan, seed)
    one_draw = Draws(permutations=1, enumerate_up_to=0, seed=0)
    shared = permute(common, 0, draws) if len(common) else None
    alone = int((uses[members] == 1).sum(axis=1).max())
    step = max(1, _MOST // (plan.permutations * values.shape[2] * max(alone, 1)))
    place = np.empty(values.shape[1], dtype=np.int64)
    for start in range(0, len(members), step):
        chunk = members[start : start + step]
        single = chunk[uses[chunk] == 1]
        rows = shared if shared is not None and not len(single) else permute(single, 0, draws)
        observed, permuted = rows.observed, rows.permuted
        if shared is not None and len(single):
            observed = np.concatenate([observed, shared.observed])
            permuted = np.concatenate([permuted, shared.permuted], axis=1)
        place[np.concatenate([single, common])] = np.arange(len(single) + len(common))
        for study, columns in enumerate(chunk, start=start):
            gaps = observed[place[columns]]
            if own_labels:
                gaps = permute(columns, study, one_draw).observed
            yield Permuted(gaps, permuted[:, place[columns]], rows.exact)


# The rule on a look, with all that a report shows of it


@dataclass(frozen=True, slots=True)
class OutcomeGap:
    """One outcome's part in the test: its gap, that over its permutation SD, and the slope on the
    covariate with the share of variance that it takes off."""

    outcome: str
    gap: float
    z: float
    beta: float
    rho2: float


@dataclass(frozen=True, slots=True)
class MissingRuns:
    """Shares of a model's owed runs that are missing and the p of a difference between the arms.

    If the plan asks for bounds (D4): the test with missing public runs at 0 and private ones at 1,
    and the one-sided 95 % upper bound with the converse.
    """

    share_public: float
    share_private: float
    p: float
    bound_gap: float | None = None
    bound_p_adjusted: float | None = None
    bound_upper: float | None = None


@dataclass(frozen=True, slots=True)
class PrimaryResult:
    """One model at one look. Estimates are of the first outcome, adjusted if the look is."""

    verdict: Verdict
    equivalence: Equivalence | None
    outcomes: tuple[OutcomeGap, ...]
    missing: MissingRuns
    unadjusted: GapEstimate | None
    p_unadjusted: float
    p_adjusted_unadjusted: float  # over the models, without the covariate

    @property
    def model(self) -> str:
        """The model's name."""
        return self.verdict.model


@dataclass(frozen=True, slots=True, eq=False)
class LookData:
    """A look's instances with the seed means of its models, as they are and adjusted."""

    means: SeedMeans
    adjusted: Adjusted
    covariate: Floats | None  # (n, outcomes)
    covered: float  # share of instances that have a covariate; 0 if nothing is adjusted

    def studies(self, columns: Sequence[int]) -> Studies:
        """The look as one study of some of its columns."""
        means = self.means
        runs = means.missing + means.scored
        scores = ModelScores(means.values, self.covariate, means.missing, runs)
        members = np.array([columns], dtype=np.int64)
        return Studies(scores, members, means.public[:, None], means.stratum, means.tranche)


def look_data(
    means: SeedMeans, tested: Sequence[int], baseline: Sequence[int] = (), runs: int = 1
) -> LookData:
    """The tested columns, adjusted by the baseline's (D5); as they are if no instance has ``runs``
    runs of the baseline."""
    chosen, rows = means.pick(tested), means.rows(tested)
    if baseline and tested:
        places = list(baseline)
        scored = means.scored[rows][:, places]
        x = pre_exposure_means(means.values[rows][:, places], scored, runs)
        covered = float((~np.isnan(x[:, 0])).mean())
        if covered:
            return LookData(chosen, adjust(chosen.values, x, chosen.stratum), x, covered)
    return LookData(chosen, unadjusted(chosen.values), None, 0.0)


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
    studies, residuals = data.studies(testable), data.adjusted.residuals
    seed = permutation_seed(registration, str(means.columns[0].wave))
    if plan.standard is None and plan.multiplicity == "holm" and testable:
        decisions = _separate_decisions(plan, data, testable, registration)
    else:
        decisions = apply_rule(plan, studies, residuals, seed)
    plain = family_tests(plan, means.values, studies, seed) if data.covered else decisions.test
    missing = _missing_runs(plan, data, testable, decisions, seed)
    return tuple(
        _result(data, m, testable.index(m), decisions, plain, missing[m], rule)
        if m in testable
        else _not_tested(means, m, missing[m], rule)
        for m in range(len(means.columns))
    )


def _separate_decisions(
    plan: Plan, data: LookData, testable: Sequence[int], registration: str
) -> Decisions:
    """The rule of basic-v1 with Holm's method, which needs no common permutations: each model is
    tested on the instances that it has, with permutations of its own."""
    tests = []
    for m in testable:
        column = data.means.columns[m]
        here = ~np.isnan(data.means.values[:, m, 0])
        study = data.studies([m])
        alone = replace(
            study,
            public=study.public[here],
            stratum=study.stratum[here],
            tranche=study.tranche[here],
        )
        seed = permutation_seed(registration, column.model, str(column.wave))
        tests.append(family_tests(plan, data.adjusted.residuals[here], alone, seed))
    gaps, z, p = (
        np.concatenate([getattr(test, name) for test in tests], axis=1)
        for name in ("gaps", "z", "p")
    )
    family = FamilyTest(gaps, z, p, holm(p[0])[None])
    claimed = family.adjusted <= look_alpha(plan)
    return Decisions(family, claimed, np.zeros_like(claimed))


def _missing_runs(
    plan: Plan, data: LookData, testable: Sequence[int], decisions: Decisions, seed: int
) -> dict[int, MissingRuns]:
    """The missing runs of each column; without shares if the plan has no rule for them."""
    columns = range(len(data.means.columns))
    if decisions.missing is None or decisions.bound_gap is None or decisions.bound_p is None:
        return dict.fromkeys(columns, MissingRuns(math.nan, math.nan, 1.0))
    rest = [m for m in columns if m not in testable]
    missing: dict[int, MissingRuns] = {}
    lost_of_rest = missingness_tests(plan, data.studies(rest), seed)
    for tested, lost in ((testable, decisions.missing), (rest, lost_of_rest)):
        shares = (part[0].tolist() for part in (lost.share_public, lost.share_private, lost.p))
        for m, public, private, p in zip(tested, *shares, strict=True):
            missing[m] = MissingRuns(public, private, p)
    for place in np.flatnonzero(~np.isnan(decisions.bound_p[0])).tolist():
        m = testable[place]
        missing[m] = replace(
            missing[m],
            bound_gap=float(decisions.bound_gap[0, place]),
            bound_p_adjusted=float(decisions.bound_p[0, place]),
            bound_upper=_filled_upper(data, m),
        )
    return missing


def _filled_upper(data: LookData, m: int) -> float:
    """A model's upper bound with all that is missing filled against a claim of no inflation."""
    means, study = data.means, data.studies([m])
    _, highest = fill_missing(study.scores.pick(study.members[0]), means.stratum, means.public)
    return estimate_gap(highest[:, 0, 0], means.stratum, means.public).upper


def _not_tested(means: SeedMeans, m: int, missing: MissingRuns, rule: Rule) -> PrimaryResult:
    column, there = means.columns[m], ~np.isnan(means.values[:, m, 0])
    n = int((there & means.public).sum()), int((there & ~means.public).sum())
    verdict = decide_nothing(column.model, column.wave, n, rule)
    return PrimaryResult(verdict, None, (), missing, None, 1.0, 1.0)


def _result(
    data: LookData,
    m: int,
    place: int,
    decisions: Decisions,
    plain: FamilyTest,
    missing: MissingRuns,
    rule: Rule,
) -> PrimaryResult:
    means, test, column = data.means, decisions.test, data.means.columns[m]
    gap = estimate_gap(data.adjusted.residuals[:, m, 0], means.stratum, means.public)
    p, adjusted = float(test.p[0, place]), float(test.adjusted[0, place])
    verdict = decide(column.model, column.wave, gap, p, adjusted, rule)
    outcomes = zip(
        means.outcomes,
        test.gaps[0, place].tolist(),
        test.z[0, place].tolist(),
        data.adjusted.beta[m].tolist(),
        data.adjusted.rho2[m].tolist(),
        strict=True,
    )
    return PrimaryResult(
        _survive(verdict, missing, bool(decisions.unbound[0, place]), rule),
        tost(gap.gap, gap.se, gap.df, rule.margin),
        tuple(OutcomeGap(*parts) for parts in outcomes),
        missing,
        estimate_gap(means.values[:, m, 0], means.stratum, means.public),
        float(plain.p[0, place]),
        float(plain.adjusted[0, place]),
    )


def _survive(verdict: Verdict, missing: MissingRuns, unbound: bool, rule: Rule) -> Verdict:
    """The verdict, inconclusive if its claim does not survive the bounds of missing runs (D4)."""
    upper, why = missing.bound_upper, ""
    if unbound and missing.bound_p_adjusted is not None:
        p = p_words(missing.bound_p_adjusted)
        why = f"the gap does not survive the adverse bound of missing runs (adjusted p {p})"
    if verdict.verdict == NO_INFLATION and upper is not None and not upper < rule.margin:
        why = (
            "missing runs could hide an inflation: with public ones at 1 and private ones at 0 the "
            f"upper bound is {100 * upper:.1f} points"
        )
    return replace(verdict, verdict=INCONCLUSIVE, note=why) if why else verdict

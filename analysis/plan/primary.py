"""The primary test of a look: what is adjusted, permuted, bounded and said of each model.

spec/statistics.md, D4, D5, P1 to P3, P5, P6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.data import SeedMeans
from analysis.plan.presets import look_alpha
from analysis.plan.verdict import (
    CONTAMINATED,
    INCONCLUSIVE,
    NO_INFLATION,
    Rule,
    Verdict,
    decide,
    decide_nothing,
)
from analysis.stats import (
    Adjusted,
    Equivalence,
    GapEstimate,
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
    permutation_seed,
    permute_blocks,
    pre_exposure_means,
    test_by_arm,
    tost,
    two_sided_p,
    unadjusted,
    westfall_young,
)
from registry.ledger import Plan, StandardRules

_MOST = 8_000_000  # permuted gaps that are held at once

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """Seed means of some models on the same instances: ``values`` (n, models, outcomes), NaN where
    missing; ``covariate`` (n, outcomes) or of the values' shape, None where nothing is adjusted;
    ``missing`` and ``runs`` (n, models) count runs that were lost and that were owed."""

    values: Floats
    covariate: Floats | None
    missing: Ints
    runs: Ints

    def pick(self, models: list[int]) -> ModelScores:
        x = self.covariate
        own = x if x is None or x.ndim == 2 else x[:, models]
        return ModelScores(
            self.values[:, models], own, self.missing[:, models], self.runs[:, models]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Studies:
    """Studies of one model each, a column each, with arms of its own: ``public`` (n, columns), of
    one count in each tranche of each stratum; ``stratum``, ``tranche`` (n,). ``beside`` are the
    look's other models, the same in all studies; where ``instead``, the model takes the place of
    one of them, of each in turn."""

    model: ModelScores
    public: Bools
    stratum: Ints
    tranche: Ints
    beside: ModelScores | None = None
    instead: bool = False

    @property
    def block(self) -> Ints:
        """Within which labels move."""
        return blocks_of(self.stratum, self.tranche)

    @property
    def family(self) -> int:
        """Over how many models p is adjusted."""
        return 1 + len(self.others(0))

    def others(self, column: int) -> list[int]:
        """Which of the other models a study's look has."""
        count = 0 if self.beside is None else self.beside.values.shape[1]
        gone = column % count if self.instead and count else -1
        return [place for place in range(count) if place != gone]


@dataclass(frozen=True, slots=True, eq=False)
class Detected:
    """By column: adjusted p; whether the plan says contaminated; and whether it would but for the
    adverse bound of missing runs."""

    p: Floats
    found: Bools
    unbound: Bools


def detect(plan: Plan, studies: Studies, seed: int) -> Detected:
    """The verdict on each column's model, by the plan's rule of one look."""
    alpha = look_alpha(plan)
    p = _adjusted_p(plan, studies, seed)
    claimed, unbound = p <= alpha, np.zeros(len(p), dtype=bool)
    needs = _that_need_bounds(plan, studies, np.flatnonzero(claimed), seed)
    unbound[needs] = _bound_p(plan, studies, needs, seed) > alpha
    return Detected(p, claimed & ~unbound, unbound)


def _adjusted_p(plan: Plan, studies: Studies, seed: int) -> Floats:
    values = _residuals(studies.model, studies.stratum)
    beside = None if studies.beside is None else _residuals(studies.beside, studies.stratum)
    rest = None if beside is None else _permuted(plan, beside, studies, seed).permuted
    found = []
    for column, rows in enumerate(_drawn(plan, values, studies, seed)):
        held, permuted, others = values[:, [column]], rows.permuted, studies.others(column)
        if beside is not None and rest is not None:
            held = np.concatenate([held, beside[:, others]], axis=1)
            permuted = np.concatenate([permuted, rest[:, others]], axis=1)
        observed = _observed(held, studies, column)
        found.append(_first_p(plan, Permuted(observed, permuted, rows.exact)))
    return np.array(found)


def _that_need_bounds(plan: Plan, studies: Studies, columns: Ints, seed: int) -> Ints:
    """Of some columns those whose claim must survive the adverse bound (D4)."""
    rules, model = plan.standard, studies.model
    if rules is None or not model.missing[:, columns].any():
        return columns[:0]
    share = lost_share(model.missing, model.runs)[:, columns, None]
    needs = []
    whole = replace(studies, stratum=studies.block, tranche=np.zeros_like(studies.tranche))
    for place, rows in enumerate(_drawn(plan, share, whole, seed)):
        column = int(columns[place])
        public = studies.public[:, column]
        observed = _observed(share[:, [place]], whole, column)
        p = two_sided_p(Permuted(observed, rows.permuted, rows.exact))[0]
        lost, owed = model.missing[:, column], model.runs[:, column]
        shares = [lost[arm].sum() / max(owed[arm].sum(), 1) for arm in (public, ~public)]
        needs.append(p < rules.missing_alpha or max(shares) > rules.missing_share)
    return np.asarray(columns[np.array(needs, dtype=bool)])


def _bound_p(plan: Plan, studies: Studies, columns: Ints, seed: int) -> Floats:
    """Adjusted p with all that is missing filled against the claim, of the others too."""
    found = []
    for column in columns.tolist():
        public = studies.public[:, column]
        parts = [_filled(studies.model.pick([column]), studies.stratum, public)]
        if studies.beside is not None:
            rest = studies.beside.pick(studies.others(column))
            parts.append(_filled(rest, studies.stratum, public))
        held = np.concatenate(parts, axis=1)
        rows = _permuted(plan, held, studies, seed)
        observed = _observed(held, studies, column)
        found.append(_first_p(plan, Permuted(observed, rows.permuted, rows.exact)))
    return np.array(found)


def _drawn(plan: Plan, values: Floats, studies: Studies, seed: int) -> Iterator[Permuted]:
    """The permuted rows of each column, which share their draw; many are made at once."""
    step = max(1, _MOST // (plan.permutations * values.shape[2]))
    for start in range(0, values.shape[1], step):
        rows = _permuted(plan, values[:, start : start + step], studies, seed)
        for place in range(rows.permuted.shape[1]):
            own = slice(place, place + 1)
            yield Permuted(rows.observed[own], rows.permuted[:, own], rows.exact)


def _filled(scores: ModelScores, stratum: Ints, public: Bools) -> Floats:
    share = lost_share(scores.missing, scores.runs)
    lowest, _ = adverse_bounds(scores.values, public, share)
    return (
        lowest if scores.covariate is None else adjust(lowest, scores.covariate, stratum).residuals
    )


def _residuals(scores: ModelScores, stratum: Ints) -> Floats:
    if scores.covariate is None:
        return scores.values
    return adjust(scores.values, scores.covariate, stratum).residuals


def _first_p(plan: Plan, gaps: Permuted) -> float:
    statistics = max_t(gaps)
    if plan.multiplicity == "holm":
        return float(holm(p_values(statistics))[0])
    return float(westfall_young(statistics)[0])


def _permuted(plan: Plan, values: Floats, studies: Studies, seed: int) -> Permuted:
    """Gaps under permuted labels, which any column's serve to count."""
    return permute_blocks(
        values, studies.stratum, studies.tranche, studies.public[:, 0],
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to, seed=seed,
    )  # fmt: skip


def _observed(values: Floats, studies: Studies, column: int) -> Floats:
    """Gaps (models, outcomes) under a study's own labels."""
    found = permute_blocks(
        values, studies.stratum, studies.tranche, studies.public[:, column],
        permutations=1, enumerate_up_to=0, seed=0,
    )  # fmt: skip
    return found.observed


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
    """Shares of a model's owed runs that are missing, the p of a difference between the arms, and,
    where the plan asks for it, what is left with them filled against the claim (D4): the test with
    public ones at 0 and private ones at 1, and the one-sided 95 % upper bound with the converse."""

    share_public: float
    share_private: float
    p: float
    bound_gap: float | None = None
    bound_p_adjusted: float | None = None
    bound_upper: float | None = None


@dataclass(frozen=True, slots=True)
class PrimaryResult:
    """One model at one look. Estimates are of the first outcome, adjusted where the look is."""

    verdict: Verdict
    equivalence: Equivalence | None
    outcomes: tuple[OutcomeGap, ...]
    missing: MissingRuns
    unadjusted: GapEstimate | None
    p_unadjusted: float
    p_adjusted_unadjusted: float  # over the models, without the covariate

    @property
    def model(self) -> str:
        return self.verdict.model


@dataclass(frozen=True, slots=True, eq=False)
class LookData:
    """A look's instances with the scores of its models, as they are and adjusted."""

    cube: SeedMeans
    adjusted: Adjusted
    covariate: Floats | None  # (n, outcomes)
    covered: float  # share of instances that have a covariate; 0 where nothing is adjusted


def look_data(
    cube: SeedMeans, tested: Sequence[int], baseline: Sequence[int], runs: int
) -> LookData:
    """The tested columns, adjusted by the baseline's (D5). Where no instance has ``runs`` runs of
    the baseline, nothing is adjusted."""
    rows = cube.rows(tested)
    own = cube.pick(tested)
    if not baseline:
        return LookData(own, unadjusted(own.values), None, 0.0)
    chosen = np.ones(len(baseline), dtype=bool)
    x = pre_exposure_means(
        cube.values[rows][:, list(baseline)],
        chosen,
        runs=cube.scored[rows][:, list(baseline)],
        least=runs,
    )
    covered = float((~np.isnan(x[:, 0])).mean())
    if not covered:
        return LookData(own, unadjusted(own.values), None, 0.0)
    return LookData(own, adjust(own.values, x, own.stratum), x, covered)


def run_tests(
    plan: Plan, rules: StandardRules, data: LookData, registration: str, rule: Rule, *, wave: int
) -> tuple[PrimaryResult, ...]:
    """What the plan says of each model of a look, in the order of the columns."""
    cube = data.cube
    seed = permutation_seed(registration, str(wave))
    testable = [m for m in range(len(cube.columns)) if _has_both_arms(cube, m)]
    main = test_family(plan, cube, data.adjusted.residuals, testable, seed)
    plain = main if not data.covered else test_family(plan, cube, cube.values, testable, seed)
    lost = test_by_arm(
        cube.missing, cube.missing + cube.scored, blocks_of(cube.stratum, cube.tranche),
        cube.public,
        plan.permutations, seed, enumerate_up_to=plan.enumerate_up_to,
    )  # fmt: skip
    most = np.fmax(lost.share_public, lost.share_private)
    needs = (lost.p < rules.missing_alpha) | (most > rules.missing_share)
    bound = _bound(plan, data, testable, seed) if needs[testable].any() else None
    found = []
    for m in range(len(cube.columns)):
        missing = MissingRuns(float(lost.share_public[m]), float(lost.share_private[m]),
                          float(lost.p[m]))  # fmt: skip
        if m in testable and bound is not None and needs[m]:
            place = testable.index(m)
            missing = MissingRuns(
                missing.share_public, missing.share_private, missing.p,
                float(bound.gaps[place, 0]), float(bound.adjusted[place]),
                _filled_upper(data, m),
            )  # fmt: skip
        found.append(_tested(data, m, main, plain, missing, rule, wave))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyTest:
    """P1 and P3 of some models on common permutations: ``models`` are columns; ``gaps`` and ``z``
    (models, outcomes), ``p`` and ``adjusted`` (models,)."""

    models: tuple[int, ...]
    gaps: Floats
    z: Floats
    p: Floats
    adjusted: Floats


def test_family(
    plan: Plan, cube: SeedMeans, values: Floats, models: Sequence[int], seed: int
) -> FamilyTest:
    """The test of some columns, and p adjusted over them. ``values`` (n, columns, outcomes)."""
    if not models:
        nothing, flat = np.empty((0, values.shape[2])), np.empty(0)
        return FamilyTest((), nothing, nothing, flat, flat)
    gaps = permute_blocks(
        values[:, list(models)], cube.stratum, cube.tranche, cube.public,
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to, seed=seed,
    )  # fmt: skip
    statistics = max_t(gaps)
    p = p_values(statistics)
    over = holm(p) if plan.multiplicity == "holm" else westfall_young(statistics)
    return FamilyTest(tuple(models), gaps.observed, _z(gaps), p, over)


test_family.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


def _z(gaps: Permuted) -> Floats:
    """Observed gaps over their SD under permutation; 0 without spread."""
    every = gaps.permuted
    if not gaps.exact:
        every = np.concatenate([gaps.observed[None], gaps.permuted])
    sd = every.std(axis=0)
    z: Floats = np.divide(gaps.observed, sd, out=np.zeros_like(sd), where=sd > 1e-12)
    return z


def _bound(plan: Plan, data: LookData, testable: Sequence[int], seed: int) -> FamilyTest:
    """The test with all that is missing filled against a claim of contamination (D4, ii)."""
    lowest, _ = _filled_of_tested(data, slice(None))
    return test_family(plan, data.cube, lowest, testable, seed)


def _filled_upper(data: LookData, m: int) -> float:
    """A model's upper bound with all that is missing filled against a claim of no inflation."""
    _, highest = _filled_of_tested(data, slice(m, m + 1))
    return _estimate(data.cube, highest[:, 0, 0]).upper


def _filled_of_tested(data: LookData, models: slice) -> tuple[Floats, Floats]:
    """Scores of some columns with what is missing filled to the lowest gap and to the highest,
    adjusted as the look is."""
    cube = data.cube
    share = lost_share(cube.missing, cube.missing + cube.scored)[:, models]
    low, high = adverse_bounds(cube.values[:, models], cube.public, share)
    if data.covariate is None:
        return low, high
    low, high = (adjust(each, data.covariate, cube.stratum).residuals for each in (low, high))
    return low, high


def _tested(
    data: LookData,
    m: int,
    main: FamilyTest,
    plain: FamilyTest,
    missing: MissingRuns,
    rule: Rule,
    wave: int,
) -> PrimaryResult:
    cube = data.cube
    model = cube.columns[m].model
    if m not in main.models:
        there = ~np.isnan(cube.values[:, m, 0])
        n = int((there & cube.public).sum()), int((there & ~cube.public).sum())
        return PrimaryResult(
            decide_nothing(model, wave, n, rule), None, (), missing, None, 1.0, 1.0
        )
    place = main.models.index(m)
    gap = _estimate(cube, data.adjusted.residuals[:, m, 0])
    verdict = decide(model, wave, gap, float(main.p[place]), float(main.adjusted[place]), rule)
    return PrimaryResult(
        _survive(verdict, missing, rule),
        tost(gap.gap, gap.se, gap.df, rule.margin),
        tuple(
            OutcomeGap(
                name, float(main.gaps[place, o]), float(main.z[place, o]),
                float(data.adjusted.beta[m, o]), float(data.adjusted.rho2[m, o]),
            )
            for o, name in enumerate(cube.outcomes)
        ),
        missing,
        _estimate(cube, cube.values[:, m, 0]),
        float(plain.p[place]),
        float(plain.adjusted[place]),
    )  # fmt: skip


def _survive(verdict: Verdict, missing: MissingRuns, rule: Rule) -> Verdict:
    """The verdict, unless a claim hangs on runs that are missing (D4)."""
    p, upper, why = missing.bound_p_adjusted, missing.bound_upper, ""
    if verdict.verdict == CONTAMINATED and p is not None and p > rule.alpha:
        why = (
            f"the gap does not survive the adverse bound of missing runs (adjusted p {p_words(p)})"
        )
    if verdict.verdict == NO_INFLATION and upper is not None and not upper < rule.margin:
        why = (
            "missing runs could hide an inflation: with public ones at 1 and private ones at 0 the "
            f"upper bound is {100 * upper:.1f} points"
        )
    return replace(verdict, verdict=INCONCLUSIVE, note=why) if why else verdict


def _estimate(cube: SeedMeans, scores: Floats) -> GapEstimate:
    there = ~np.isnan(scores)
    return estimate_gap(scores[there], cube.stratum[there], cube.public[there])


def _has_both_arms(cube: SeedMeans, m: int) -> bool:
    there = ~np.isnan(cube.values[:, m, 0])
    cells = set(zip(cube.stratum[there].tolist(), cube.public[there].tolist(), strict=True))
    return len(cells) == 2 * len(np.unique(cube.stratum))


def primary_rule(plan: Plan, *, beyond: bool, hypothesis: str = "primary") -> Rule:
    """What a look's verdicts are held against."""
    return Rule(look_alpha(plan), plan.margin, hypothesis, beyond)

"""Sensitivity analyses that a plan names. They decide nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import numpy as np

from analysis.data.seed_means import SeedMeans, outcome_of
from analysis.data.table import ResultTable, codes_of
from analysis.errors import AnalysisError
from analysis.plan.negative_controls import LEVEL as CONTROL_LEVEL
from analysis.plan.presets import plan_draws
from analysis.plan.primary import LookData, family_tests
from analysis.plan.results import PrimaryResult
from analysis.stats.adjustment import fit_slope
from analysis.stats.intervals import GapEstimate, estimate_gap
from analysis.stats.mixed_models import ModelGap, gee_gap, mixed_gap, shrink_gaps
from analysis.stats.permutation import (
    Bools,
    Draws,
    Floats,
    Ints,
    Permuted,
    Statistics,
    blocks_of,
    count_allocations,
    drop_one_armed,
    max_t,
    p_floor,
    p_values,
    permutation_seed,
    permute_gaps,
    two_sided_p,
    weigh_blocks,
    westfall_young,
)
from registry.ledger.records import Plan
from registry.result_row import Arm, Status

DIMENSIONS: Mapping[str, str] = {
    "score_sr": "scientific reasoning",
    "score_dh": "data handling",
    "score_im": "image data extraction",
    "score_if": "instruction following",
}
PARTS = ("score_key", "score_static")
_STATIC_NOTE = "two-sided p: a negative control, since knowing an instance cannot help here"
_FAULT_NOTE = "; this small, it shows something else that differs between the arms"


@dataclass(frozen=True, slots=True)
class SensitivityResult:
    """One number of a sensitivity analysis; ``note`` says why a part is None."""

    analysis: str
    wave: int
    model: str
    detail: str  # the stratum left out, the dimension; "" for the whole
    estimate: float | None
    interval: tuple[float, float] | None = None  # two-sided 95 %
    p: float | None = None  # one-sided, unless the note says otherwise
    p_adjusted: float | None = None
    note: str = ""
    p_floor: float = 0.0  # the least p that the permutations can show; 0 of a model's p


@dataclass(frozen=True, slots=True, eq=False)
class SensitivityInput:
    """The inputs of the sensitivity analyses of one look."""

    plan: Plan
    registration: str
    wave: int
    data: LookData
    results: tuple[PrimaryResult, ...]
    newest: bool  # models are fitted at the newest look alone: earlier reports hold the others
    rows: ResultTable  # of the tested models at the wave, one grader's
    parts: SeedMeans  # the same columns, outcomes DIMENSIONS and PARTS

    def draws(self, name: str) -> Draws:
        """The permutations of one analysis."""
        seed = permutation_seed(self.registration, name, str(self.wave))
        return plan_draws(self.plan, seed)


Row = Callable[..., SensitivityResult]  # a result without the analysis and the wave


def run_sensitivity(look: SensitivityInput) -> Iterator[SensitivityResult]:
    """Every sensitivity analysis that the plan names, in the plan's order."""
    rules = look.plan.standard
    for name in () if rules is None else rules.sensitivity:
        yield from _ANALYSES[name](look, partial(SensitivityResult, name, look.wave))


def _unadjusted(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    for result in look.results:
        gap, p = result.unadjusted, result.p_unadjusted
        if gap is not None:
            adjusted, floor = result.p_adjusted_unadjusted, result.p_floor_unadjusted
            yield row(result.model, "", gap.gap, gap.interval, p, adjusted, p_floor=floor)


def _fitted_slope(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    means, x = look.data.means, look.data.covariate
    testable = [m for m in range(len(means.models)) if means.has_both_arms(m)]
    if x is None or not testable:
        return
    fitted = fit_slope(means.values, x, means.stratum)
    seed = permutation_seed(look.registration, "fitted-slope", str(look.wave))
    test = family_tests(look.plan, fitted.residuals, look.data.studies(testable), seed)
    for place, m in enumerate(testable):
        gap = estimate_gap(fitted.residuals[:, m, 0], means.stratum, means.public)
        slope = f"slope {fitted.beta[m, 0]:.2f}"
        p, adjusted = float(test.p[0, place]), float(test.adjusted[0, place])
        model, floor = means.models[m], test.floor
        yield row(model, slope, gap.gap, gap.interval, p, adjusted, p_floor=floor)


def _leave_one_out(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    means = look.data.means
    if not look.newest or len(np.unique(means.stratum)) < 2:
        return
    block = blocks_of(means.stratum, means.tranche)
    values = weigh_blocks(look.data.adjusted.residuals, means.stratum, block)
    draws = look.draws("leave-one-stratum-out")
    for code, gaps, ps, floor in leave_one_out(values, block, means.public, means.stratum, **draws):
        for model, gap, p in zip(means.models, gaps.tolist(), ps.tolist(), strict=True):
            yield row(model, f"without {means.strata[code]}", gap, p=p, p_floor=floor)


def _by_dimension(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    means = look.parts
    tested = [
        o
        for o, name in enumerate(means.outcomes)
        if name in DIMENSIONS and not np.isnan(means.values[:, :, o]).all()
    ]
    if not tested:
        return
    block = blocks_of(means.stratum, means.tranche)
    values, draws = means.values[:, :, tested], look.draws("dimensions")
    *parts, floor = max_t_over_categories(values, block, means.public, **draws)
    for m, model in enumerate(means.models):
        for place, o in enumerate(tested):
            gap, p, adjusted = (float(part[m, place]) for part in parts)
            if not math.isnan(gap):
                detail = DIMENSIONS[means.outcomes[o]]
                yield row(model, detail, gap, p=p, p_adjusted=adjusted, p_floor=floor)


def _key_and_static(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    """Over the instances that have criteria of both kinds, so that the third row is the first less
    the second."""
    means = look.parts
    key, static = (means.values[:, :, means.outcomes.index(part)] for part in PARTS)
    both = ~np.isnan(key) & ~np.isnan(static)
    if not both.any():
        return
    key, static = (np.where(both, part, np.nan) for part in (key, static))
    block = blocks_of(means.stratum, means.tranche)
    draws = look.draws("key-static")
    contrasts, floor = contrast_key_with_static(key, static, block, means.public, **draws)
    for model, parts in zip(means.models, contrasts, strict=True):
        for part, (gap, p) in parts.items():
            note = _STATIC_NOTE if part == "static" else ""
            note += _FAULT_NOTE if note and p < CONTROL_LEVEL else ""
            if gap is not None:
                interval = None if gap.se is None else gap.interval  # all alike: no spread to tell
                yield row(model, part, gap.gap, interval, p, note=note, p_floor=floor)


def _fit_runs(
    look: SensitivityInput, row: Row, fit: Callable[[Floats, Ints, Ints, Bools], ModelGap]
) -> Iterator[SensitivityResult]:
    """A statistical model of each tested model's scored runs."""
    if not look.newest:
        return
    table = look.rows
    scores = outcome_of(table, look.plan.outcomes[0])
    seeds, strata = (codes_of(table[name])[1] for name in ("instance", "stratum"))
    public = np.asarray(table["arm"] == Arm.PUBLIC, dtype=bool)
    scored = (table["status"] != Status.MISSING) & ~np.isnan(scores)
    for model in look.data.means.models:
        runs = scored & (table["model"] == model)
        if runs.any():
            gap = fit(scores[runs], seeds[runs], strata[runs], public[runs])
            yield row(model, "", gap.gap, gap.interval, gap.p, note="; ".join(gap.notes))


def _shrinkage(look: SensitivityInput, row: Row) -> Iterator[SensitivityResult]:
    """Gaps of the look's models, drawn towards their mean."""
    verdicts = [r.verdict for r in look.results if r.verdict.estimate is not None]
    gaps, ses = (  # an SE that is None becomes NaN
        np.array([getattr(verdict, name) for verdict in verdicts], dtype=np.float64)
        for name in ("estimate", "se")
    )
    shrunk, errors = shrink_gaps(gaps, ses)
    for verdict, gap, se in zip(verdicts, shrunk.tolist(), errors.tolist(), strict=True):
        if not math.isnan(gap):
            yield row(verdict.model, "", gap, (gap - 1.96 * se, gap + 1.96 * se))


_ANALYSES: Mapping[str, Callable[[SensitivityInput, Row], Iterator[SensitivityResult]]] = {
    "unadjusted": _unadjusted,
    "fitted-slope": _fitted_slope,
    "leave-one-stratum-out": _leave_one_out,
    "dimensions": _by_dimension,
    "key-static": _key_and_static,
    "gee": partial(_fit_runs, fit=gee_gap),
    "mixed": partial(_fit_runs, fit=mixed_gap),
    "shrinkage": _shrinkage,
}


# Without each stratum in turn


def leave_one_out(
    values: Floats, stratum: Ints, public: Bools, group: Ints, **draws: Unpack[Draws]
) -> list[tuple[int, Floats, Floats, float]]:
    """P1 without all strata of each group in turn: the code of the group, the gap of the first
    outcome over the others and its p (models,), and the least that p can be. ``values``
    (n, models, outcomes); ``group`` (n,) is one to a stratum.

    Strata are permuted apart from each other, so that a row's gap without some is made of the
    parts of the others: it costs little more than the test itself. The remaining strata
    are enumerated if they are small enough. Raises AnalysisError if nothing would be left.
    """
    codes = np.unique(group)
    if len(codes) < 2:
        raise AnalysisError("leaving the only stratum or task out leaves nothing to test")

    def permute(rows: Bools, how: Draws) -> Permuted:
        return permute_gaps(values[rows], stratum[rows], public[rows], **how)

    def permute_alone(rows: Bools) -> tuple[Permuted, int]:
        """The gaps of some strata under rows of labels drawn for them alone, and their number."""
        strata = np.unique(stratum[rows])
        seed = permutation_seed(str(draws["seed"]), *map(str, strata.tolist()))
        return permute(rows, {**draws, "enumerate_up_to": 0, "seed": seed}), len(strata)

    rest = [group != g for g in codes]
    small = [count_allocations(stratum[r], public[r]) <= draws["enumerate_up_to"] for r in rest]
    parts = [] if all(small) else [permute_alone(group == g) for g in codes]
    tests = [
        permute(retained, draws) if few else _join(parts[:g] + parts[g + 1 :])
        for g, (retained, few) in enumerate(zip(rest, small, strict=True))
    ]
    return [
        (int(code), test.observed[:, 0], p_values(max_t(test)), p_floor(test))
        for code, test in zip(codes, tests, strict=True)
    ]


def _join(parts: list[tuple[Permuted, int]]) -> Permuted:
    """The gaps over all strata of some parts."""
    observed = np.zeros_like(parts[0][0].observed)
    permuted = np.zeros_like(parts[0][0].permuted)
    for gaps, strata in parts:
        observed += gaps.observed * strata
        permuted += gaps.permuted * strata
    total = sum(strata for _, strata in parts)
    return Permuted(observed / total, permuted / total, False)


# Burned against unexposed private instances


@dataclass(frozen=True, slots=True, eq=False)
class BurnTest:
    """Private seeds that a provider may have kept against private seeds that it never saw.

    Per model (models,): ``gaps`` estimate burned minus unexposed on the first outcome, ``p``
    one-sided, ``p_adjusted`` over the models. ``burned`` and ``unexposed`` count seeds
    in the strata that hold both; ``floor`` is the least p.
    """

    gaps: tuple[GapEstimate | None, ...]
    p: Floats
    p_adjusted: Floats
    burned: int
    unexposed: int
    floor: float


def compare_burned(
    values: Floats, stratum: Ints, public: Bools, burned: Bools, **draws: Unpack[Draws]
) -> BurnTest | None:
    """Burned against unexposed private seeds, one-sided, by stratified permutation.

    ``values`` (n, models, outcomes); ``burned`` (n,) marks private instances whose inputs a
    provider may have kept. None where no stratum holds both kinds. Raises AnalysisError where a
    public instance is called burned.
    """
    if (burned & public).any():
        raise AnalysisError("burned seeds are private ones: a public seed is public from the start")
    unexposed = ~public & ~burned
    compared = ~public & np.isin(stratum, stratum[burned]) & np.isin(stratum, stratum[unexposed])
    if not compared.any():
        return None
    strata, labels, scores = stratum[compared], burned[compared], values[compared]
    statistics = max_t(permute_gaps(scores, strata, labels, **draws))
    first, _ = drop_one_armed(scores[:, :, :1], strata, labels)
    return BurnTest(
        gaps=tuple(_estimate(column, strata, labels) for column in first[:, :, 0].T),
        p=p_values(statistics),
        p_adjusted=westfall_young(statistics),
        burned=int(labels.sum()),
        unexposed=int((~labels).sum()),
        floor=p_floor(statistics),
    )


# Gaps of parts of the score, and the parts that publication cannot help with


Contrast = Mapping[str, tuple[GapEstimate | None, float]]  # by part: the gap and its p


def max_t_over_categories(
    values: Floats, stratum: Ints, public: Bools, **draws: Unpack[Draws]
) -> tuple[Floats, Floats, Floats, float]:
    """Max-T over categories of the rubric, model by model (models, categories): gaps, public minus
    private, averaged over the strata that have the category in both arms, NaN where none has; their
    one-sided p; p by step-down max-T over the model's categories, of which the least is the p of
    any gap; and the least that a p can be. A p is 1 where there is nothing to test.

    ``values`` (n, models, categories) are seed means, NaN where an instance has no criterion of
    the category or no scored run. Labels are permuted as in P1, in common to all.
    """
    shape = values.shape[1:]
    retained, strata = drop_one_armed(values, stratum, public)
    gaps = permute_gaps(retained.reshape(len(retained), -1, 1), stratum, public, **draws)
    single = max_t(gaps)  # one outcome each: nothing is maximised yet
    observed, permuted = single.observed.reshape(shape), single.permuted.reshape(-1, *shape)
    adjusted = [
        westfall_young(Statistics(observed[m], permuted[:, m], single.exact))
        for m in range(len(observed))
    ]
    # From a mean over all strata, to which those without count 0, to one over those with.
    means = np.full(shape, np.nan)
    sums = gaps.observed[:, 0].reshape(shape) * len(np.unique(stratum))
    np.divide(sums, strata, out=means, where=strata > 0)
    p = p_values(single).reshape(shape)
    return means, p, np.array(adjusted).reshape(shape), p_floor(gaps)


def contrast_key_with_static(
    key: Floats, static: Floats, stratum: Ints, public: Bools, **draws: Unpack[Draws]
) -> tuple[Sequence[Contrast], float]:
    """Criteria that need the instance's own answer key against those that are the same in every
    instance (static): a Contrast for each model, and the least that a p can be. ``key`` and
    ``static`` (n, models) are shares passed, NaN where there are none.

    Knowing published instances cannot help with what all instances share, so that the p of static
    (two-sided) is a control: a small one shows a fault. The other p are one-sided. A gap is None
    where an arm of every stratum lacks both kinds.
    """
    models = key.shape[1]
    stacked = np.concatenate([key, static, key - static], axis=1)
    retained, _ = drop_one_armed(stacked[:, :, None], stratum, public)
    gaps = permute_gaps(retained, stratum, public, **draws)
    estimates = [_estimate(column, stratum, public) for column in retained[:, :, 0].T]
    one_sided, two_sided = p_values(max_t(gaps)).tolist(), two_sided_p(gaps).tolist()
    p = one_sided[:models] + two_sided[models : 2 * models] + one_sided[2 * models :]
    tests = [*zip(estimates, p, strict=True)]
    parts = ("answer key", "static", "answer key minus static")
    contrasts = [dict(zip(parts, tests[m::models], strict=True)) for m in range(models)]
    return contrasts, p_floor(gaps)


def _estimate(scores: Floats, stratum: Ints, public: Bools) -> GapEstimate | None:
    return None if np.isnan(scores).all() else estimate_gap(scores, stratum, public)

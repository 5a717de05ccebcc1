"""Sensitivity analyses that a plan names (spec/statistics.md, S2, S3). They decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from analysis.data import ResultTable, SeedMeans, codes_of, outcome_of
from analysis.errors import AnalysisError
from analysis.plan.negative_controls import LEVEL as CONTROL_LEVEL
from analysis.plan.presets import plan_draws
from analysis.plan.primary import LookData, PrimaryResult
from analysis.stats import (
    Bools,
    Draws,
    Floats,
    GapEstimate,
    Ints,
    Permuted,
    Statistics,
    blocks_of,
    count_allocations,
    drop_one_armed,
    estimate_gap,
    gee_gap,
    max_t,
    mixed_gap,
    p_values,
    permutation_seed,
    permute_gaps,
    shrink_gaps,
    two_sided_p,
    weigh_blocks,
    westfall_young,
)
from registry.ledger import Plan
from registry.result_row import Arm, Status

_Part = tuple[Permuted, int]  # the gaps of some strata, and how many these are


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """The test again without each stratum (or task) in turn: ``strata`` (k,) holds their codes,
    ``gaps`` (k, models) the gap of the first outcome over the others, ``p`` (k, models) P1's on
    them."""

    strata: Ints
    gaps: Floats
    p: Floats


@dataclass(frozen=True, slots=True, eq=False)
class BurnTest:
    """Private seeds that a provider may have kept against private seeds that it never saw.

    Per model (models,): ``gaps`` estimate burned minus unexposed on the first outcome, ``p``
    one-sided, ``p_adjusted`` over the models. ``burned`` and ``unexposed`` count seeds
    in the ``strata`` strata that hold both.
    """

    gaps: tuple[GapEstimate | None, ...]
    p: Floats
    p_adjusted: Floats
    burned: int
    unexposed: int
    strata: int


def leave_one_out(
    values: Floats, stratum: Ints, public: Bools, group: Ints, **draws: Unpack[Draws]
) -> LeftOut:
    """P1 without all strata of each group in turn (spec/statistics.md, S3). ``values``
    (n, models, outcomes); ``group`` (n,) is one to a stratum.

    Strata are permuted apart from each other, so that a row's gap without some is made of the
    parts of the others: it costs little more than the test itself. What is left is enumerated if
    that is small enough. Raises AnalysisError if nothing would be left.
    """
    codes = np.unique(group)
    if len(codes) < 2:
        raise AnalysisError("leaving the only stratum or task out leaves nothing to test")
    rest = [group != g for g in codes]
    small = [count_allocations(stratum[r], public[r]) <= draws["enumerate_up_to"] for r in rest]
    parts: list[_Part] = []
    if not all(small):
        parts = [_part(values, stratum, public, group == g, draws) for g in codes]
    tests = [
        _enumerated(values, stratum, public, retained, draws) if few else _without(parts, g)
        for g, (retained, few) in enumerate(zip(rest, small, strict=True))
    ]
    gaps = np.array([test.observed[:, 0] for test in tests])
    return LeftOut(codes, gaps, np.array([p_values(max_t(test)) for test in tests]))


def compare_burned(
    values: Floats, stratum: Ints, public: Bools, burned: Bools, **draws: Unpack[Draws]
) -> BurnTest | None:
    """Burned against unexposed private seeds, one-sided, by stratified permutation
    (spec/statistics.md, B1).

    ``values`` (n, models, outcomes); ``burned`` (n,) marks private instances whose inputs a
    provider may have kept. None where no stratum holds both kinds. Raises AnalysisError where a
    public instance is called burned.
    """
    if (burned & public).any():
        raise AnalysisError("burned seeds are private ones: a public seed is public from the start")
    private = ~public & _strata_with_both(stratum, public, burned)
    if not private.any():
        return None
    strata, labels, kept = stratum[private], burned[private], values[private]
    permuted = permute_gaps(kept, strata, labels, **draws)
    statistics = max_t(permuted)
    first, _ = drop_one_armed(kept[:, :, :1], strata, labels)
    gaps = tuple(_estimate(first[:, m, 0], strata, labels) for m in range(kept.shape[1]))
    return BurnTest(
        gaps,
        p_values(statistics),
        westfall_young(statistics),
        int(labels.sum()),
        int((~labels).sum()),
        len(np.unique(strata)),
    )


def _enumerated(
    values: Floats, stratum: Ints, public: Bools, rows: Bools, draws: Draws
) -> Permuted:
    """All allocations of some strata: nothing is drawn."""
    return permute_gaps(values[rows], stratum[rows], public[rows], **draws)


def _part(values: Floats, stratum: Ints, public: Bools, rows: Bools, draws: Draws) -> _Part:
    """The gaps of some strata, under rows of labels that are drawn for them alone."""
    strata = np.unique(stratum[rows])
    seed = permutation_seed(str(draws["seed"]), *map(str, strata.tolist()))
    alone: Draws = {"permutations": draws["permutations"], "enumerate_up_to": 0, "seed": seed}
    return permute_gaps(values[rows], stratum[rows], public[rows], **alone), len(strata)


def _without(parts: list[_Part], place: int) -> Permuted:
    others = parts[:place] + parts[place + 1 :]
    observed = np.zeros_like(others[0][0].observed)
    permuted = np.zeros_like(others[0][0].permuted)
    for gaps, strata in others:
        observed += gaps.observed * strata
        permuted += gaps.permuted * strata
    total = sum(strata for _, strata in others)
    return Permuted(observed / total, permuted / total, False)


def _strata_with_both(stratum: Ints, public: Bools, burned: Bools) -> Bools:
    has_burned = np.isin(stratum, stratum[burned])
    return np.asarray(has_burned & np.isin(stratum, stratum[~public & ~burned]))


def _estimate(scores: Floats, stratum: Ints, labels: Bools) -> GapEstimate | None:
    there = ~np.isnan(scores)
    return estimate_gap(scores[there], stratum[there], labels[there]) if there.any() else None


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
    interval: tuple[float, float] | None  # two-sided 95 %
    p: float | None  # one-sided, unless the note says otherwise
    p_adjusted: float | None
    note: str


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

    @property
    def models(self) -> list[str]:
        """The models of the look, by column."""
        return [column.model for column in self.data.means.columns]


def run_sensitivity(look: SensitivityInput) -> tuple[SensitivityResult, ...]:
    """Every sensitivity analysis that the plan names, in the plan's order."""
    rules = look.plan.standard
    named = () if rules is None else rules.sensitivity
    return tuple(result for name in named for result in _ANALYSES[name](look))


def _unadjusted(look: SensitivityInput) -> Iterator[SensitivityResult]:
    for result in look.results:
        if result.unadjusted is not None:
            yield SensitivityResult(
                "unadjusted",
                look.wave,
                result.verdict.model,
                "",
                result.unadjusted.gap,
                result.unadjusted.interval,
                result.p_unadjusted,
                result.p_adjusted_unadjusted,
                "",
            )


def _leave_one_out(look: SensitivityInput) -> Iterator[SensitivityResult]:
    means = look.data.means
    name = "leave-one-stratum-out"
    if not look.newest or len(np.unique(means.stratum)) < 2:
        return
    block = blocks_of(means.stratum, means.tranche)
    left_out = leave_one_out(
        weigh_blocks(look.data.adjusted.residuals, means.stratum, block),
        block,
        means.public,
        means.stratum,
        **_permuting(look, name),
    )
    for row, code in enumerate(left_out.strata.tolist()):
        for m, model in enumerate(look.models):
            yield SensitivityResult(
                name,
                look.wave,
                model,
                f"without {means.strata[code]}",
                float(left_out.gaps[row, m]),
                None,
                float(left_out.p[row, m]),
                None,
                "",
            )


def _by_dimension(look: SensitivityInput) -> Iterator[SensitivityResult]:
    means = look.parts
    there = [
        o
        for o, name in enumerate(means.outcomes)
        if name in DIMENSIONS and not np.isnan(means.values[:, :, o]).all()
    ]
    if not there:
        return
    categories = max_t_over_categories(
        means.values[:, :, there],
        blocks_of(means.stratum, means.tranche),
        means.public,
        **_permuting(look, "dimensions"),
    )
    for m, column in enumerate(means.columns):
        for place, o in enumerate(there):
            gap = float(categories.gaps[m, place])
            if not np.isnan(gap):
                yield SensitivityResult(
                    "dimensions",
                    look.wave,
                    column.model,
                    DIMENSIONS[means.outcomes[o]],
                    gap,
                    None,
                    float(categories.p[m, place]),
                    float(categories.p_adjusted[m, place]),
                    "",
                )


def _key_and_static(look: SensitivityInput) -> Iterator[SensitivityResult]:
    """Over the instances that have criteria of both kinds, so that the third row is the first less
    the second."""
    means, name = look.parts, "key-static"
    key, static = (means.values[:, :, means.outcomes.index(part)] for part in PARTS)
    both = ~np.isnan(key) & ~np.isnan(static)
    if not both.any():
        return
    contrasts = contrast_key_with_static(
        np.where(both, key, np.nan),
        np.where(both, static, np.nan),
        blocks_of(means.stratum, means.tranche),
        means.public,
        **_permuting(look, name),
    )
    for column, contrast in zip(means.columns, contrasts, strict=True):
        fault = contrast.p_static < CONTROL_LEVEL
        rows = (
            ("answer key", contrast.key, contrast.p_key, ""),
            (
                "static",
                contrast.static,
                contrast.p_static,
                _STATIC_NOTE + (_FAULT_NOTE if fault else ""),
            ),
            ("answer key minus static", contrast.excess, contrast.p_excess, ""),
        )
        for part, gap, p, note in rows:
            if gap is not None:
                interval = None if gap.se is None else gap.interval  # all alike: no spread to tell
                yield SensitivityResult(
                    name, look.wave, column.model, part, gap.gap, interval, p, None, note
                )


def _gee(look: SensitivityInput) -> Iterator[SensitivityResult]:
    for model, runs in _runs(look) if look.newest else ():
        fit = gee_gap(*runs)
        note = "; ".join(fit.notes)
        yield SensitivityResult(
            "gee", look.wave, model, "", fit.gap, fit.interval, fit.p, None, note
        )


def _mixed(look: SensitivityInput) -> Iterator[SensitivityResult]:
    for model, runs in _runs(look) if look.newest else ():
        fit = mixed_gap(*runs)
        note = "; ".join(fit.notes)
        yield SensitivityResult(
            "mixed", look.wave, model, "", fit.gap, fit.interval, fit.p, None, note
        )


def _shrinkage(look: SensitivityInput) -> Iterator[SensitivityResult]:
    """Gaps of the look's models, drawn towards their mean."""
    known = [result for result in look.results if result.verdict.estimate is not None]
    gaps = np.array([result.verdict.estimate for result in known], dtype=np.float64)
    ses = np.array(
        [np.nan if result.verdict.se is None else result.verdict.se for result in known],
        dtype=np.float64,
    )
    shrunk = shrink_gaps(gaps, ses)
    if shrunk is None:
        return
    for place, result in enumerate(known):
        gap, se = float(shrunk.gaps[place]), float(shrunk.ses[place])
        if not np.isnan(gap):
            yield SensitivityResult(
                "shrinkage",
                look.wave,
                result.verdict.model,
                "",
                gap,
                (gap - 1.96 * se, gap + 1.96 * se),
                None,
                None,
                "",
            )


_ANALYSES: Mapping[str, Callable[[SensitivityInput], Iterator[SensitivityResult]]] = {
    "unadjusted": _unadjusted,
    "leave-one-stratum-out": _leave_one_out,
    "dimensions": _by_dimension,
    "key-static": _key_and_static,
    "gee": _gee,
    "mixed": _mixed,
    "shrinkage": _shrinkage,
}

Runs = tuple[Floats, Ints, Ints, Bools]


def _runs(look: SensitivityInput) -> Iterator[tuple[str, Runs]]:
    """Each model's scored runs: scores, seeds, strata, arms."""
    table = look.rows
    scores = outcome_of(table, look.plan.outcomes[0])
    _, seeds = codes_of(table["instance"])
    _, strata = codes_of(table["stratum"])
    public = np.asarray(table["arm"] == Arm.PUBLIC, dtype=bool)
    there = (table["status"] != Status.MISSING) & ~np.isnan(scores)
    for model in look.models:
        rows = there & (table["model"] == model)
        if rows.any():
            yield model, (scores[rows], seeds[rows], strata[rows], public[rows])


def _permuting(look: SensitivityInput, name: str) -> Draws:
    return plan_draws(look.plan, permutation_seed(look.registration, name, str(look.wave)))


@dataclass(frozen=True, slots=True, eq=False)
class CategoryGaps:
    """Gaps by model and category (models, categories), public minus private, averaged over the
    ``strata`` that have the category in both arms; NaN where none has.

    ``p`` is one-sided, ``p_adjusted`` step-down max-T over the model's categories, ``p_any``
    (models,) that of the largest: whether any category has a gap. 1 where there is nothing to test.
    """

    gaps: Floats
    p: Floats
    p_adjusted: Floats
    p_any: Floats
    strata: Ints
    exact: bool


@dataclass(frozen=True, slots=True)
class Contrast:
    """One model: the gap of criteria that need the instance's own answer key, of those that are
    the same in every instance (static), and of key minus static.

    Knowing published instances cannot help with what all instances share, so that ``p_static``
    (two-sided) is a control: a small one shows a fault. The other p are one-sided. An estimate
    is None where an arm of every stratum lacks both kinds.
    """

    key: GapEstimate | None
    static: GapEstimate | None
    excess: GapEstimate | None
    p_key: float
    p_static: float
    p_excess: float


def max_t_over_categories(
    values: Floats, stratum: Ints, public: Bools, **draws: Unpack[Draws]
) -> CategoryGaps:
    """Max-T over categories of the rubric, model by model (spec/statistics.md, S2).

    ``values`` (n, models, categories) are seed means, NaN where an instance has no criterion of
    the category or no scored run. Labels are permuted as in P1, in common to all.
    """
    models, categories = values.shape[1:]
    retained, strata = drop_one_armed(values, stratum, public)
    gaps = permute_gaps(retained.reshape(len(retained), -1, 1), stratum, public, **draws)
    single = max_t(gaps)  # one outcome each: nothing is maximised yet
    p = p_values(single).reshape(models, categories)
    adjusted = np.array([westfall_young(_of_model(single, m, categories)) for m in range(models)])
    adjusted = adjusted.reshape(models, categories)
    rescaled = _rescaled(gaps.observed[:, 0].reshape(models, categories), strata, stratum)
    return CategoryGaps(rescaled, p, adjusted, adjusted.min(axis=1), strata, gaps.exact)


def contrast_key_with_static(
    key: Floats,
    static: Floats,
    stratum: Ints,
    public: Bools,
    **draws: Unpack[Draws],
) -> tuple[Contrast, ...]:
    """Answer-key against seed-invariant criteria, a Contrast for each model (spec/statistics.md,
    S2). ``key`` and ``static`` (n, models) are shares passed, NaN where there are none."""
    stacked = np.concatenate([key, static, key - static], axis=1)
    retained, _ = drop_one_armed(stacked[:, :, None], stratum, public)
    gaps = permute_gaps(retained, stratum, public, **draws)
    p, both = p_values(max_t(gaps)), two_sided_p(gaps)
    models = key.shape[1]
    estimates = [_estimate(retained[:, c, 0], stratum, public) for c in range(3 * models)]
    return tuple(
        Contrast(
            estimates[m],
            estimates[models + m],
            estimates[2 * models + m],
            float(p[m]),
            float(both[models + m]),
            float(p[2 * models + m]),
        )
        for m in range(models)
    )


def _of_model(single: Statistics, model: int, categories: int) -> Statistics:
    columns = slice(model * categories, (model + 1) * categories)
    return Statistics(single.observed[columns], single.permuted[:, columns], single.exact)


def _rescaled(gaps: Floats, strata: Ints, stratum: Ints) -> Floats:
    """From a mean over all strata, to which those without count 0, to one over those with."""
    mean_gaps = np.full(gaps.shape, np.nan)
    np.divide(gaps * len(np.unique(stratum)), strata, out=mean_gaps, where=strata > 0)
    return mean_gaps

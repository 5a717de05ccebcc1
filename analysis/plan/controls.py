"""The controls that a verdict rests on (spec/statistics.md, C1 to C3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.data import SeedMeans
from analysis.plan.judge_drift import Drift, drift_words
from analysis.plan.negative_controls import (
    ControlTest,
    control_settings,
    pooled_control,
    pooled_interval,
)
from analysis.plan.presets import RegisteredPlan, look_alpha
from analysis.plan.primary import family_tests, look_data
from analysis.plan.results import OutcomeGap, PrimaryResult
from analysis.stats import p_words, signed
from registry.ledger import StandardRules
from registry.result_row import GRADER

_GIVEN_KEYS = "given public keys"
_TOO_BLUNT = "was not found: the instrument is too blunt at this look"


@dataclass(frozen=True, slots=True)
class ControlResult:
    """One control at one wave. ``passed`` is None where it could not be run; ``says`` is a
    sentence; ``interval90`` is two-sided: of a frozen model's, together with those before
    publication."""

    kind: str  # "C1", "C2", "C3"
    what: str
    wave: int
    models: tuple[str, ...]
    passed: bool | None
    gap: float | None = None
    interval90: tuple[float, float] | None = None
    p: float | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class ControlPool:
    """Models that cannot have been exposed: their columns, and the planned ones that are
    ``lacking`` since they were not run. If there are ``companions``, the interval of the control
    is that of the columns and these together."""

    what: str
    columns: Sequence[int]
    lacking: tuple[str, ...]
    companions: Sequence[int] = ()


def lacking_models(
    means: SeedMeans, columns: Sequence[int], named: Sequence[str]
) -> tuple[str, ...]:
    """The named models that no column is of."""
    run = {means.columns[place].model for place in columns}
    return tuple(name for name in named if name not in run)


def negative_control(
    registered: RegisteredPlan, means: SeedMeans, pool: ControlPool, wave: int
) -> ControlResult:
    """C1 on some columns: the pooled gap of models that cannot have been exposed. It fails if a
    planned model was not run.

    The p is of the columns alone, so that a drift of theirs is seen; the interval is of them and
    of their companions, since one model's alone is wider than the margin in all but the largest
    studies."""
    lacking = pool.lacking
    missing = f"{', '.join(lacking)}: promised and not run."
    if not pool.columns:
        passed, says = (False, missing) if lacking else (None, "None is named.")
        return ControlResult("C1", pool.what, wave, lacking, passed, says=says)
    chosen, interval = means.pick(pool.columns), None
    if pool.companions:
        wide = means.pick(sorted({*pool.columns, *pool.companions}))
        margin = registered.rules.control_margin
        interval = pooled_interval(wide.values, wide.stratum, wide.public, margin)
    control = pooled_control(
        chosen.values,
        chosen.stratum,
        chosen.public,
        control_settings(registered.plan, registered.seed("C1", pool.what, str(wave))),
        tranche=chosen.tranche,
        small=interval,
    )
    models = tuple(dict.fromkeys(chosen.models))
    says = _negative_words(control, models)
    if pool.companions:
        says += " The interval is of all negative controls together."
    if lacking:
        says = f"{missing} {says}"
    return ControlResult(
        "C1",
        pool.what,
        wave,
        (*models, *lacking),
        control.passed and not lacking,
        control.gap,
        control.interval90,
        control.p,
        says,
    )


def positive_controls(
    registered: RegisteredPlan, means: SeedMeans, wave: int
) -> Iterator[ControlResult]:
    """C2 at a wave: each agent that was given public keys is detected at the look's alpha, and
    has been run."""
    plan, spiked = registered.plan, registered.rules.spiked
    columns = means.where(wave, spiked)
    if columns:
        data = look_data(means, columns)
        studies = data.studies(range(len(columns)))
        seed = registered.seed("C2", str(wave))
        family = family_tests(plan, data.means.values, studies, seed)
        for place, model in enumerate(data.means.models):
            p, gap = float(family.p[0, place]), float(family.gaps[0, place, 0])
            passed = p <= look_alpha(plan)
            says = "was found" if passed else _TOO_BLUNT
            says = f"{model}, which was given public keys, {says} (p {p_words(p)})."
            yield ControlResult("C2", _GIVEN_KEYS, wave, (model,), passed, gap, None, p, says)
    if lost := lacking_models(means, columns, spiked):
        says = f"{', '.join(lost)}: promised and not run."
        yield ControlResult("C2", _GIVEN_KEYS, wave, lost, False, says=says)


def second_opinion(
    wave: int, grader: str, first: Sequence[PrimaryResult], second: Sequence[PrimaryResult]
) -> Iterator[ControlResult]:
    """C3 at a look: the second grader agrees with the first on a model if its 95 % interval of the
    gap, in the outcome of the first one's verdict, overlaps the first one's. A model without second
    grades does not pass."""
    second_results = {result.model: result for result in second}
    for result in first:
        other = second_results.get(result.model)
        control = ControlResult("C3", f"graded by {grader}", wave, (result.model,), False)
        gap = None if other is None else _gap_in(other, result.verdict.outcome)
        if result.verdict.estimate is None:
            yield replace(control, passed=None, says=f"{result.model} is not tested.")
            continue
        if other is None or gap is None:
            yield replace(control, says=f"{grader} has not graded {result.model}.")
            continue
        (low, high), (least, most) = _ends(gap), result.verdict.interval
        agrees = low <= most and least <= high
        words = "overlaps" if agrees else "does not overlap"
        yield replace(
            control,
            passed=agrees,
            gap=gap.gap,
            p=other.verdict.p_adjusted,
            says=(
                f"{grader} finds a gap of {signed(gap.gap)} points of {result.model} "
                f"({signed(low)} to {signed(high)}), which {words} "
                f"{signed(least)} to {signed(most)}."
            ),
        )


def _ends(gap: OutcomeGap) -> tuple[float, float]:
    """The interval of a gap; the gap alone where scores without spread give none."""
    return (gap.gap, gap.gap) if gap.interval == (-1.0, 1.0) else gap.interval


def _gap_in(result: PrimaryResult, outcome: str) -> OutcomeGap | None:
    """A result's gap in an outcome; None if it was not tested."""
    return next((gap for gap in result.outcomes if gap.outcome == outcome), None)


def graded_exactly(wave: int, scored_by: str) -> ControlResult:
    """C3 at a look without a second grader. Exact checks cannot drift and know no arm; of a judge
    in a table from elsewhere nothing is known."""
    if scored_by == GRADER:
        says = "The verdicts rest on exact checks: no judge has a part in them."
        return ControlResult("C3", "graded exactly", wave, (), True, says=says)
    says = f"The scores are those of {scored_by}: neither its errors by arm nor a drift are known."
    return ControlResult("C3", "graded by a judge", wave, (), None, says=says)


def drift_control(
    rules: StandardRules, wave: int, first: int, drifts: Sequence[Drift]
) -> ControlResult:
    """C3 at a look: grading the answers of wave ``first`` again has moved the second grader's
    scores in neither arm more than the other. Without a regrading it does not pass."""
    judge = rules.second_grader
    drift = next((d for d in drifts if (d.judge, d.wave) == (judge, wave)), None)
    control = ControlResult("C3", "answers graded again", wave, (), False)
    if drift is None or drift.share < rules.regrade:
        says = (
            f"{judge} has not graded the answers of wave {first} again: "
            f"`dosimeter grade --judge {judge} --again-at {wave}` does."
        )
        return replace(control, says=says)
    pooled = drift.pooled
    return replace(
        control,
        passed=pooled.passed,
        gap=pooled.gap,
        interval90=pooled.interval90,
        p=pooled.p,
        says=drift_words(drift),
    )


def _negative_words(control: ControlTest, models: Sequence[str]) -> str:
    named = ", ".join(models)
    if control.passed:
        gap = signed(control.gap or 0.0)
        return f"{named}: no gap where there can be none ({gap} points, p {p_words(control.p)})."
    return f"{named}: {'; '.join(control.reasons)}."

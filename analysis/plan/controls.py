"""The controls that a verdict rests on (spec/statistics.md, C1 to C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.data import SeedMeans
from analysis.plan.judge_drift import Drift, drift_words
from analysis.plan.negative_controls import (
    ControlTest,
    control_settings,
    pooled_control,
    pooled_interval,
)
from analysis.plan.presets import look_alpha
from analysis.plan.primary import PrimaryResult, family_tests, look_data
from analysis.stats import p_words, permutation_seed, signed
from registry.ledger import Plan, StandardRules
from registry.result_row import GRADER

_GIVEN_KEYS = "given public keys"


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
    gap: float | None
    interval90: tuple[float, float] | None
    p: float | None
    says: str


@dataclass(frozen=True, slots=True)
class ControlPool:
    """Models that cannot have been exposed: their columns, and the planned ones that are
    ``lacking`` since they were not run. If there are ``companions``, the interval of the control
    is that of the columns and these together."""

    what: str
    columns: Sequence[int]
    lacking: tuple[str, ...]
    companions: Sequence[int] = ()


def negative_control(
    plan: Plan,
    rules: StandardRules,
    means: SeedMeans,
    pool: ControlPool,
    seed_path: tuple[str, int],
) -> ControlResult:
    """C1 on some columns: the pooled gap of models that cannot have been exposed. It fails if a
    planned model was not run. ``seed_path`` is the registration and the wave.

    The p is of the columns alone, so that a drift of theirs is seen; the interval is of them and
    of their companions, since one model's alone is wider than the margin in all but the largest
    studies."""
    (registration, wave), lacking = seed_path, pool.lacking
    missing = f"{', '.join(lacking)}: promised and not run."
    if not pool.columns:
        passed, says = (False, missing) if lacking else (None, "None is named.")
        return ControlResult("C1", pool.what, wave, lacking, passed, None, None, None, says)
    chosen, interval = means.pick(pool.columns), None
    if pool.companions:
        wide = means.pick(sorted({*pool.columns, *pool.companions}))
        interval = pooled_interval(wide.values, wide.stratum, wide.public, rules.control_margin)
    control = pooled_control(
        chosen.values,
        chosen.stratum,
        chosen.public,
        control_settings(plan, permutation_seed(registration, "C1", pool.what, str(wave))),
        tranche=chosen.tranche,
        small=interval,
    )
    models = tuple(dict.fromkeys(chosen.models))
    says = _negative_words(control, models)
    if pool.companions:
        says += " The interval is of all negative controls together."
    if lacking:
        says = f"{missing} {says}"
    passed = control.passed and not lacking
    return ControlResult(
        "C1",
        pool.what,
        wave,
        (*models, *lacking),
        passed,
        control.gap,
        control.interval90,
        control.p,
        says,
    )


def positive_controls(
    plan: Plan, rules: StandardRules, means: SeedMeans, registration: str, wave: int
) -> list[ControlResult]:
    """C2 at a wave: each agent that was given public keys is detected at the look's alpha."""
    columns = means.where(wave, rules.spiked)
    lost = _not_run(rules, means, columns, wave)
    if not columns:
        return lost
    data = look_data(means, columns)
    seed = permutation_seed(registration, "C2", str(wave))
    studies = data.studies(range(len(columns)))
    family = family_tests(plan, data.means.values, studies, seed)
    results = []
    for place, column in enumerate(data.means.columns):
        p, gap = float(family.p[0, place]), float(family.gaps[0, place, 0])
        passed = p <= look_alpha(plan)
        says = "was found" if passed else "was not found: the instrument is too blunt at this look"
        results.append(
            ControlResult(
                "C2",
                _GIVEN_KEYS,
                wave,
                (column.model,),
                passed,
                gap,
                None,
                p,
                f"{column.model}, which was given public keys, {says} (p {p_words(p)}).",
            )
        )
    return [*results, *lost]


def _not_run(
    rules: StandardRules, means: SeedMeans, columns: Sequence[int], wave: int
) -> list[ControlResult]:
    """A failure for the agents that were to be given keys and have no row."""
    run = {means.columns[place].model for place in columns}
    lost = tuple(name for name in rules.spiked if name not in run)
    says = f"{', '.join(lost)}: promised and not run."
    return (
        [ControlResult("C2", _GIVEN_KEYS, wave, lost, False, None, None, None, says)]
        if lost
        else []
    )


def second_opinion(
    wave: int, grader: str, first: Sequence[PrimaryResult], second: Sequence[PrimaryResult]
) -> list[ControlResult]:
    """C3 at a look: the second grader's verdict on each model is that of the first, and what has
    not been graded does not pass."""
    others = {result.verdict.model: result.verdict for result in second}
    results = []
    for result in first:
        model, other = result.verdict.model, others.get(result.verdict.model)
        if other is None:
            says, passed = f"{grader} has not graded {model}.", False
        else:
            passed = other.verdict == result.verdict.verdict
            says = f"{grader} says of {model}: {other.verdict}."
        results.append(
            ControlResult(
                "C3",
                f"graded by {grader}",
                wave,
                (model,),
                passed,
                other.estimate if other else None,
                None,
                other.p_adjusted if other else None,
                says,
            )
        )
    return results


def graded_exactly(wave: int, scored_by: str) -> ControlResult:
    """C3 at a look without a second grader. Exact checks cannot drift and know no arm; of a judge
    in a table from elsewhere nothing is known."""
    if scored_by == GRADER:
        says = "The verdicts rest on exact checks: no judge has a part in them."
        return ControlResult("C3", "graded exactly", wave, (), True, None, None, None, says)
    says = f"The scores are those of {scored_by}: neither its errors by arm nor a drift are known."
    return ControlResult("C3", "graded by a judge", wave, (), None, None, None, None, says)


def drift_control(
    rules: StandardRules, wave: int, first: int, drifts: Sequence[Drift]
) -> ControlResult:
    """C3 at a look: what the second grader says again of the answers of wave ``first`` has moved
    neither arm more than the other. What was not graded again does not pass."""
    judge = rules.second_grader
    drift = next((d for d in drifts if (d.judge, d.wave) == (judge, wave)), None)
    what = "answers graded again"
    if drift is None or drift.share < rules.regrade:
        says = (
            f"{judge} has not graded the answers of wave {first} again: "
            f"`dosimeter grade --judge {judge} --again-at {wave}` does."
        )
        return ControlResult("C3", what, wave, (), False, None, None, None, says)
    pooled = drift.pooled
    return ControlResult(
        "C3",
        what,
        wave,
        (),
        pooled.passed,
        pooled.gap,
        pooled.interval90,
        pooled.p,
        drift_words(drift),
    )


def _negative_words(control: ControlTest, models: Sequence[str]) -> str:
    named = ", ".join(models)
    if control.passed:
        gap = signed(control.gap or 0.0)
        return f"{named}: no gap where there can be none ({gap} points, p {p_words(control.p)})."
    return f"{named}: {'; '.join(control.reasons)}."

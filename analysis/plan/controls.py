"""The controls of a look.

C1 calibrates the scores and vetoes nothing; verdicts rest on C2 and C3."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.data.seed_means import SeedMeans
from analysis.plan.negative_controls import (
    AGREES,
    DISAGREES,
    NOT_RUN,
    ControlState,
    ControlTest,
    control_settings,
    pooled_control,
)
from analysis.plan.presets import RegisteredPlan, bridging_models, look_alpha
from analysis.plan.primary import family_tests, look_data
from analysis.plan.results import OutcomeGap, PrimaryResult
from analysis.stats.intervals import p_words, points, signed
from analysis.stats.permutation import Floats, drop_one_armed
from registry.ledger.records import StandardRules
from registry.result_row import GRADER

RELEASED_BEFORE = "released before publication"
FROZEN_CHANGE = "frozen, change since the baseline"
STATIC = "score_static"  # the column of scores over criteria that need no answer key
STATIC_CRITERIA = "criteria that need no answer key"
GRADED_AGAIN = "answers graded again"
_DETECTABLE = 1.96 + 0.8416  # standard errors: power of 80 % at the two-sided level of 5 %
_GIVEN_KEYS = "given public keys"
_TOO_BLUNT = "was not found: the instrument is too blunt at this look"


@dataclass(frozen=True, slots=True)
class ControlResult:
    """One control at one wave. ``says`` is a sentence; ``interval90`` is two-sided. ``detectable``,
    of frozen models, is the smallest fault of one look alone that their runs would show in four of
    five cases."""

    kind: str  # "C1", "C2", "C3"
    what: str
    wave: int
    models: tuple[str, ...]
    state: ControlState
    gap: float | None = None
    interval90: tuple[float, float] | None = None
    p: float | None = None
    says: str = ""
    detectable: float | None = None
    p_floor: float = 0.0  # the least p that the permutations can show


def tested_control(
    kind: str, what: str, wave: int, models: tuple[str, ...], control: ControlTest, says: str
) -> ControlResult:
    """The result of a control that was tested as one pool; ``says`` is it in words."""
    names = ("state", "gap", "interval90", "p", "p_floor")
    found: dict[str, Any] = {name: getattr(control, name) for name in names}
    return ControlResult(kind, what, wave, models, says=says, **found)


def lacking_models(
    means: SeedMeans, columns: Sequence[int], named: Sequence[str]
) -> tuple[str, ...]:
    """The named models that no column is of."""
    run = {means.columns[place].model for place in columns}
    return tuple(name for name in named if name not in run)


def negative_control(
    registered: RegisteredPlan, means: SeedMeans, columns: Sequence[int], wave: int
) -> ControlResult:
    """C1 on the columns of pre-exposure models: the pooled gap of models that cannot have been
    exposed. Every score is calibrated by these models, so a gap of theirs vetoes no claim."""
    what, lacking = RELEASED_BEFORE, lacking_models(means, columns, registered.rules.pre_exposure)
    missing = _lacking_words(means, lacking)
    if not columns:
        return ControlResult("C1", what, wave, lacking, NOT_RUN, says=missing or "None is named.")
    chosen = means.pick(columns)
    control = _pooled(registered, chosen, what, wave)
    models = tuple(dict.fromkeys(chosen.models))
    says = f"{missing} {_negative_words(control, models)}".strip()
    return tested_control("C1", what, wave, (*models, *lacking), control, says)


def static_control(
    registered: RegisteredPlan, parts: SeedMeans, models: Sequence[str], wave: int
) -> ControlResult | None:
    """C1 at a look: the pooled gap of the tested models on criteria that are the same in every
    instance, which no knowledge of an instance can help with. None if no row has such criteria.
    Like the control models' gap it vetoes nothing."""
    columns = parts.where(wave, models)
    chosen = parts.pick(columns)
    values = chosen.values[:, :, [chosen.outcomes.index(STATIC)]]
    values, _ = drop_one_armed(values, chosen.stratum, chosen.public)
    rows = ~np.isnan(values).all(axis=(1, 2))
    if not rows.any():
        return None
    kept = {name: getattr(chosen, name)[rows] for name in ("stratum", "public", "tranche")}
    scored = replace(chosen, values=values[rows], **kept)
    control = _pooled(registered, scored, STATIC_CRITERIA, wave)
    named = chosen.models
    says = _negative_words(control, named)
    if control.state == DISAGREES:
        says += " Something else than the answers differs between the arms."
    return tested_control("C1", STATIC_CRITERIA, wave, named, control, says)


def bridging_columns(rules: StandardRules, means: SeedMeans, wave: int) -> list[int]:
    """The columns of the frozen models at a wave, or of those that take the place of one whose
    scores there do not vary."""
    ran = {
        column.model
        for place, column in enumerate(means.columns)
        if column.wave == wave and means.varies(place)
    }
    return means.where(wave, bridging_models(rules, ran))


def frozen_change(
    registered: RegisteredPlan, means: SeedMeans, baseline: Sequence[int], wave: int
) -> ControlResult:
    """C1 at a look: the change by arm of frozen models from their own baseline. No fault of this
    look alone would show in the baseline; where they disagree, something else than the models has
    changed since. Those without a run are replaced."""
    what, rules = FROZEN_CHANGE, registered.rules
    columns = bridging_columns(rules, means, wave)
    lacking = lacking_models(means, columns, rules.frozen)
    others = {means.columns[place].model for place in columns} - {*rules.frozen}
    missing = _lacking_words(means, lacking, wave, others)
    first = {means.columns[place].model: place for place in reversed(baseline)}
    own = [(c, first.get(means.columns[c].model, c)) for c in columns]
    pairs = [(now, then) for now, then in own if now != then]
    if not pairs:
        says = missing or "No frozen model has an earlier run to compare with."
        return ControlResult("C1", what, wave, lacking, NOT_RUN, says=says)
    now, then = (list(part) for part in zip(*pairs, strict=True))
    changed = replace(means.pick(now), values=_change(means, now, then))
    control = _pooled(registered, changed, what, wave)
    models = tuple(dict.fromkeys(changed.models))
    detectable = None if control.se is None else _DETECTABLE * control.se
    says = f"{missing} {_change_words(control, models, detectable)}".strip()
    result = tested_control("C1", what, wave, (*models, *lacking), control, says)
    return replace(result, detectable=detectable)


def _pooled(registered: RegisteredPlan, chosen: SeedMeans, what: str, wave: int) -> ControlTest:
    return pooled_control(
        chosen.values,
        chosen.stratum,
        chosen.public,
        control_settings(registered.plan, registered.seed("C1", what, str(wave))),
        tranche=chosen.tranche,
    )


def _change(means: SeedMeans, now: Sequence[int], then: Sequence[int]) -> Floats:
    """Scores of some columns minus those of others, on the instances that the first were to run."""
    rows = means.rows(now)
    return means.values[rows][:, list(now)] - means.values[rows][:, list(then)]


def positive_controls(
    registered: RegisteredPlan, means: SeedMeans, controls: Sequence[int], wave: int
) -> Iterator[ControlResult]:
    """C2 at a wave: each agent that was given public keys is detected at the look's alpha, and
    has been run."""
    plan, spiked = registered.plan, registered.rules.spiked
    columns = means.where(wave, spiked)
    if columns:
        data = look_data(means, columns, controls)
        studies = data.studies(range(len(columns)))
        seed = registered.seed("C2", str(wave))
        family = family_tests(plan, data.adjusted.residuals, studies, seed)
        for place, model in enumerate(data.means.models):
            p, gap = float(family.p[0, place]), float(family.gaps[0, place, 0])
            state = AGREES if p <= look_alpha(plan) else DISAGREES
            says = "was found" if state == AGREES else _TOO_BLUNT
            says = f"{model}, which was given public keys, {says} (p {p_words(p, family.floor)})."
            yield ControlResult(
                *("C2", _GIVEN_KEYS, wave, (model,), state, gap, None, p, says),
                p_floor=family.floor,
            )
    if lost := lacking_models(means, columns, spiked):
        says = f"{', '.join(lost)}: promised and not run."
        yield ControlResult("C2", _GIVEN_KEYS, wave, lost, DISAGREES, says=says)


def second_opinion(
    wave: int, grader: str, first: Sequence[PrimaryResult], second: Sequence[PrimaryResult]
) -> Iterator[ControlResult]:
    """C3 at a look: the second grader agrees with the first on a model if its 95 % interval of the
    gap, in the outcome of the first one's verdict, overlaps the first one's. A model without second
    grades does not pass."""
    second_results = {result.model: result for result in second}
    for result in first:
        other = second_results.get(result.model)
        control = ControlResult("C3", f"graded by {grader}", wave, (result.model,), DISAGREES)
        gaps = () if other is None else other.outcomes
        gap = next((each for each in gaps if each.outcome == result.verdict.outcome), None)
        if result.verdict.estimate is None:
            yield replace(control, state=NOT_RUN, says=f"{result.model} is not tested.")
            continue
        if other is None or gap is None:
            yield replace(control, says=f"{grader} has not graded {result.model}.")
            continue
        (low, high), (least, most) = _ends(gap), result.verdict.interval
        agrees = low <= most and least <= high
        words = "overlaps" if agrees else "does not overlap"
        yield replace(
            control,
            state=AGREES if agrees else DISAGREES,
            gap=gap.gap,
            p=other.verdict.p_adjusted,
            p_floor=other.verdict.p_floor,
            says=(
                f"{grader} finds a gap of {signed(gap.gap)} points of {result.model} "
                f"({signed(low)} to {signed(high)}), which {words} "
                f"{signed(least)} to {signed(most)}."
            ),
        )


def _ends(gap: OutcomeGap) -> tuple[float, float]:
    """The interval of a gap; the gap alone where scores without spread give none."""
    return (gap.gap, gap.gap) if gap.interval == (-1.0, 1.0) else gap.interval


def graded_exactly(wave: int, scored_by: str) -> ControlResult:
    """C3 at a look without a second grader. Exact checks cannot drift and know no arm; of a judge
    in a table from elsewhere nothing is known."""
    if scored_by == GRADER:
        says = "The verdicts rest on exact checks: no judge has a part in them."
        return ControlResult("C3", "graded exactly", wave, (), AGREES, says=says)
    says = f"The scores are those of {scored_by}: neither its errors by arm nor a drift are known."
    return ControlResult("C3", "graded by a judge", wave, (), NOT_RUN, says=says)


def not_graded_again(rules: StandardRules, wave: int, first: int) -> ControlResult:
    """C3 at a look for which the second grader has not graded the answers of wave ``first`` again:
    it disagrees."""
    judge = rules.second_grader
    says = (
        f"{judge} has not graded the answers of wave {first} again: "
        f"`dosimeter judge grade --judge {judge} --again-at {wave}` does."
    )
    return ControlResult("C3", GRADED_AGAIN, wave, (), DISAGREES, says=says)


def _lacking_words(
    means: SeedMeans, lacking: Sequence[str], wave: int | None = None, others: Collection[str] = ()
) -> str:
    """The controls that did not run (at a wave), or without scores that vary; and the ``others``
    that took their place."""
    ran = {
        column.model
        for place, column in enumerate(means.columns)
        if wave in (None, column.wave) and means.scored[:, place].any()
    }
    alike, absent = ([n for n in lacking if (n in ran) == has_run] for has_run in (True, False))
    instead = f"; {', '.join(sorted(others))} instead" if others else ""
    why = "promised and not run", "no information, since its scores are alike"
    words = zip((absent, alike), why, strict=True)
    return " ".join(f"{', '.join(names)}: {what}{instead}." for names, what in words if names)


def _negative_words(control: ControlTest, models: Sequence[str]) -> str:
    named = ", ".join(models)
    if control.state == AGREES:
        gap = signed(control.gap or 0.0)
        p = p_words(control.p, control.p_floor)
        return f"{named}: no gap where there can be none ({gap} points, p {p})."
    return f"{named}: {control.reason}."


def _change_words(control: ControlTest, models: Sequence[str], detectable: float | None) -> str:
    named = ", ".join(models)
    text = f"{named}: {control.reason}."
    if control.state == AGREES:
        p = p_words(control.p, control.p_floor)
        text = f"{named}: no change by arm since the baseline (p {p})."
    if detectable is None:
        return text
    return f"{text} A fault of this look alone would be seen from {points(detectable)} points on."

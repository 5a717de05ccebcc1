"""A judge's second grades of archived answers: did it move one arm more than the other?

The same text is graded again, so that a change of its grades is drift. Drift makes no gap as long
as both arms move alike: the gap of the change must be null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import make_table
from analysis.plan.controls import GRADED_AGAIN, ControlResult, tested_control
from analysis.plan.negative_controls import (
    AGREES,
    DISAGREES,
    NOT_RUN,
    ControlTest,
    control_settings,
    regrade_drift,
)
from analysis.stats.intervals import MeanEstimate, estimate_mean, p_words
from analysis.stats.permutation import Bools, Floats, permutation_seed
from registry.ledger.records import Plan
from registry.result_row import ResultRow


@dataclass(frozen=True, slots=True)
class Regrading:
    """A judge's grades of the answers of wave ``first``, then and again at the look of ``wave``:
    a row an episode in both, in any order. ``share`` of the instances were drawn for it."""

    judge: str
    wave: int
    first: int
    share: float
    before: tuple[ResultRow, ...]
    after: tuple[ResultRow, ...]


@dataclass(frozen=True, slots=True)
class ModelDrift:
    """The change of the grades of a model's answers, of all models together where ``model`` is "".
    ``public`` and ``private`` are mean changes over strata, None where there are none; ``control``
    holds their gap, tested two-sided."""

    model: str
    public: MeanEstimate | None
    private: MeanEstimate | None
    control: ControlTest


@dataclass(frozen=True, slots=True)
class Drift:
    """A judge at a look: all models together first, then each. Of the plan's first outcome;
    ``answers`` were scored both times."""

    judge: str
    wave: int
    first: int
    share: float
    answers: int
    models: tuple[ModelDrift, ...]

    @property
    def pooled(self) -> ControlTest:
        """The control over all models together."""
        return self.models[0].control


def measure_drift(plan: Plan, regrading: Regrading, registration: str) -> Drift:
    """The drift of a judge, by the plan's levels for controls. Raises AnalysisError where the rows
    are not of one wave, or a stratum holds one arm only."""
    before, after = (
        make_seed_means(make_table(rows), plan.outcomes[:1], plan.strata, wave=regrading.first)
        for rows in (regrading.before, regrading.after)
    )
    change = after.values[:, :, 0] - before.values[:, :, 0]
    answers = _scored(regrading.before) & _scored(regrading.after)
    everyone = list(range(len(before.models)))
    drifts = []
    for name, columns in [("", everyone), *((before.models[m], [m]) for m in everyone)]:
        wave = str(regrading.wave)
        seed = permutation_seed(registration, "C3", regrading.judge, wave, name)
        control = regrade_drift(
            before.values[:, columns, 0],
            after.values[:, columns, 0],
            before.stratum,
            before.public,
            control_settings(plan, seed),
        )
        public, private = (
            _mean(change[:, columns], before, arm) for arm in (before.public, ~before.public)
        )
        drifts.append(ModelDrift(name, public, private, control))
    return Drift(
        judge=regrading.judge,
        wave=regrading.wave,
        first=regrading.first,
        share=regrading.share,
        answers=len(answers),
        models=tuple(drifts),
    )


def drift_controls(plan: Plan, drifts: Sequence[Drift]) -> tuple[ControlResult, ...]:
    """C3 at the looks whose answers the plan's second grader has graded again, of as many instances
    as the plan says: its scores moved in neither arm more than in the other. Without a change that
    can be tested it disagrees."""
    rules = plan.standard
    if rules is None or not rules.regrade:
        return ()
    controls = []
    for drift in drifts:
        if drift.judge == rules.second_grader and drift.share >= rules.regrade:
            says = drift_words(drift)
            control = tested_control("C3", GRADED_AGAIN, drift.wave, (), drift.pooled, says)
            untested = control.state == NOT_RUN
            controls.append(replace(control, state=DISAGREES) if untested else control)
    return tuple(controls)


_CONTROL = ("gap", "interval90", "p", "state", "reason")


def drift_json(drift: Drift) -> list[dict[str, Any]]:
    """A row for all models together, ``model`` null, and one for each: mean change by arm, their
    gap with a 90 % interval and two-sided p, and why it does not agree, where it does not."""
    return [
        {
            "wave": drift.wave,
            "answers_of_wave": drift.first,
            "share": drift.share,
            "answers": drift.answers if not change.model else None,
            "model": change.model or None,
            "public": change.public and change.public.mean,
            "public_interval": change.public and change.public.interval,
            "private": change.private and change.private.mean,
            "private_interval": change.private and change.private.interval,
            **{name: getattr(change.control, name) for name in _CONTROL},
        }
        for change in drift.models
    ]


def drift_words(drift: Drift) -> str:
    """A sentence on all models together."""
    control = drift.pooled
    subject = f"{drift.judge} graded {drift.answers} answers of wave {drift.first}"
    if control.state == DISAGREES:
        return f"{subject} again, and the change is not alike in the arms: {control.reason}."
    if control.state != AGREES:
        return f"{subject} again: {control.reason}."
    gap = 0.0 if control.gap is None else 100 * control.gap
    p = p_words(control.p, control.p_floor)
    return f"{subject} again: no gap in what changed ({gap:+.1f} points, p {p})."


def _mean(change: Floats, data: SeedMeans, arm: Bools) -> MeanEstimate | None:
    """The mean change of an arm: of each instance over its models, then over strata."""
    there = arm & ~np.isnan(change).all(axis=1)
    if not there.any():
        return None
    return estimate_mean(np.nanmean(change[there], axis=1), data.stratum[there], least=-1.0)


def _scored(rows: Sequence[ResultRow]) -> set[tuple[str, str, int]]:
    return {(r.model, r.instance, r.replicate) for r in rows if r.score is not None}

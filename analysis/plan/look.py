"""Running the registered plan, look by look; anything else is exploratory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.data.seed_means import ArmCount, SeedMeans, count_arms, make_seed_means
from analysis.data.table import ResultTable, one_of, weigh_strata
from analysis.errors import AnalysisError
from analysis.plan.burned import BurnedSeeds, keep_rows, note_burned
from analysis.plan.comparison import estimate_only
from analysis.plan.controls import ControlResult
from analysis.plan.history import NO_HISTORY, RANDOM, EarlyGap, WaveHistory, early_gaps
from analysis.plan.presets import KEEP, STANDARD, control_models, validate_plan
from analysis.plan.primary import look_data
from analysis.plan.results import look_results
from analysis.plan.standard import StandardResult, run_standard
from analysis.plan.verdict import Verdict
from analysis.stats.intervals import MeanEstimate, estimate_mean
from registry.ledger.records import Plan
from registry.result_row import GRADER, Arm


@dataclass(frozen=True, slots=True)
class ArmMean:
    """A model's mean in one arm: over all strata, where ``stratum`` is empty, or in one."""

    wave: int
    model: str
    stratum: str
    arm: Arm
    estimate: MeanEstimate


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results of a plan on a table: verdicts by wave and model, and their basis."""

    plan: Plan
    registration: str
    verdicts: tuple[Verdict, ...]
    means: tuple[ArmMean, ...]
    counts: tuple[ArmCount, ...]
    standard: StandardResult | None = None  # of a plan standard-v1
    burned: tuple[BurnedSeeds, ...] = ()  # of the models that have any
    before: tuple[EarlyGap, ...] = ()  # of waves before the publication


def analyse(
    plan: Plan,
    table: ResultTable,
    registration: str,
    *,
    history: WaveHistory = NO_HISTORY,
    controls: Sequence[ControlResult] = (),
    scored_by: str = GRADER,
) -> Analysis:
    """Run the registered plan over every wave of the table.

    With basic-v1 each wave is one look; with standard-v1 each that has a model which is no
    control. By ``history``, waves before the publication are no looks, and looks of waves that
    were begun and not closed are spent. ``controls`` and ``scored_by`` are as ``run_standard``
    takes them.

    ``registration`` is the digest of the Preregistration: it seeds the permutations. Waves
    beyond the registered looks are marked exploratory.
    Raises AnalysisError for an invalid plan, or a table without rows that the plan can use.
    """
    if plan.name == STANDARD:
        validate_plan(plan)
        tested = weigh_strata(plan, table)
        result = run_standard(
            tested, table, registration, history=history, controls=controls, scored_by=scored_by
        )
        parts = {"verdicts": result.verdicts, "standard": result, "burned": result.burned}
        return _analysis(plan, registration, _graded(plan, table, GRADER), history, **parts)
    found = _analyse(plan, table, registration, GRADER, "primary", history, exploratory=False)
    if history.allocation == RANDOM:
        return found
    bare = (estimate_only(verdict, "the plan compares no models") for verdict in found.verdicts)
    return replace(found, verdicts=tuple(bare))


def explore(
    plan: Plan,
    table: ResultTable,
    registration: str,
    label: str,
    *,
    outcomes: Sequence[str] | None = None,
    grader: str = GRADER,
    history: WaveHistory = NO_HISTORY,
) -> Analysis:
    """The same test with other outcomes or another grader. Each Verdict says that it is
    exploratory, and carries the label. Raises AnalysisError as ``analyse`` does."""
    other = replace(plan, outcomes=tuple(outcomes or plan.outcomes))
    return _analyse(other, table, registration, grader, label, history, exploratory=True)


def _graded(plan: Plan, table: ResultTable, grader: str) -> ResultTable:
    return table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))


def _analysis(
    plan: Plan, registration: str, graded: ResultTable, history: WaveHistory, **found: Any
) -> Analysis:
    """The analysis with the means and counts of all rows of the grader."""
    means: list[ArmMean] = []
    for wave in sorted(set(graded["wave"].tolist())):
        means += _arm_means(make_seed_means(graded, plan.outcomes, plan.strata, wave=wave))
    return Analysis(
        plan=plan,
        registration=registration,
        means=tuple(means),
        counts=count_arms(graded),
        before=tuple(early_gaps(plan, graded, history)),
        **found,
    )


def _analyse(
    plan: Plan,
    table: ResultTable,
    registration: str,
    grader: str,
    hypothesis: str,
    history: WaveHistory,
    *,
    exploratory: bool,
) -> Analysis:
    validate_plan(plan)
    graded = _graded(plan, table, grader)
    if not len(graded):
        raise AnalysisError(
            f"no rows by grader {grader!r} in the strata {', '.join(plan.strata)}: nothing to test"
        )
    bare = replace(weigh_strata(plan, graded), standard=None)  # no covariate, no bounds
    rule = KEEP if plan.standard is None else plan.standard.burned
    kept = keep_rows(graded, rule, control_models(plan))
    seeds = {(entry.wave, entry.model): entry for entry in kept.seeds}
    clean = graded.where(kept.primary)
    verdicts: list[Verdict] = []
    for wave, number in history.number_looks(set(graded["wave"].tolist())).items():
        here = make_seed_means(clean, plan.outcomes, bare.strata, wave=wave)
        results = look_results(
            bare,
            look_data(here, range(len(here.columns))),
            registration,
            hypothesis=hypothesis,
            exploratory=exploratory or number > plan.looks,
        )
        verdicts += (note_burned(r.verdict, seeds.get((wave, r.model))) for r in results)
    found = {"verdicts": tuple(verdicts), "burned": kept.seeds}
    return _analysis(plan, registration, graded, history, **found)


def _arm_means(data: SeedMeans) -> list[ArmMean]:
    means = []
    for m, column in enumerate(data.columns):
        for arm in (Arm.PUBLIC, Arm.PRIVATE):
            scored = ~np.isnan(data.values[:, m, 0]) & (data.public == (arm == Arm.PUBLIC))
            scores, stratum = data.values[scored, m, 0], data.stratum[scored]
            parts = {data.strata[h]: stratum == h for h in np.unique(stratum).tolist()}
            if len(parts) == len(data.strata):
                parts = {"": np.ones(len(stratum), dtype=bool), **parts}
            for name, rows in parts.items():
                estimate = estimate_mean(scores[rows], stratum[rows])
                means.append(ArmMean(column.wave, column.model, name, arm, estimate))
    return means

"""Running the registered plan, look by look; anything else is exploratory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.data.seed_means import ArmCount, SeedMeans, count_arms, make_seed_means
from analysis.data.table import ResultTable, one_of
from analysis.errors import AnalysisError
from analysis.plan.burned import BurnedSeeds, keep_rows, note_burned
from analysis.plan.controls import ControlResult
from analysis.plan.history import NO_HISTORY, EarlyGap, WaveHistory, early_gaps
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
    grader: str = GRADER,
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
    beyond the registered looks are marked exploratory, as is any grader but the registered one.
    Raises AnalysisError for an invalid plan, or a table without rows that the plan can use.
    """
    if plan.name == STANDARD and grader == GRADER:
        validate_plan(plan)
        result = run_standard(
            plan, table, registration, history=history, controls=controls, scored_by=scored_by
        )
        return _with_means(plan, table, registration, result, history)
    hypothesis = "primary" if grader == GRADER else f"grader {grader}"
    other = grader != GRADER
    return _analyse(plan, table, registration, grader, hypothesis, history, exploratory=other)


def explore(
    plan: Plan,
    table: ResultTable,
    registration: str,
    label: str,
    *,
    outcomes: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    grader: str = GRADER,
    history: WaveHistory = NO_HISTORY,
) -> Analysis:
    """The same test with other outcomes, strata or grader. Each Verdict says that it is
    exploratory, and carries the label. Raises AnalysisError as ``analyse`` does."""
    other = replace(
        plan, outcomes=tuple(outcomes or plan.outcomes), strata=tuple(strata or plan.strata)
    )
    return _analyse(other, table, registration, grader, label, history, exploratory=True)


def _with_means(
    plan: Plan,
    table: ResultTable,
    registration: str,
    result: StandardResult,
    history: WaveHistory,
) -> Analysis:
    graded = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    means: list[ArmMean] = []
    for wave in sorted(set(graded["wave"].tolist())):
        means += _arm_means(make_seed_means(graded, plan.outcomes, plan.strata, wave=wave))
    counts = count_arms(graded)
    return Analysis(
        plan=plan,
        registration=registration,
        verdicts=result.verdicts,
        means=tuple(means),
        counts=counts,
        standard=result,
        burned=result.burned,
        before=tuple(early_gaps(plan, graded, history)),
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
    graded = table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))
    if not len(graded):
        raise AnalysisError(
            f"no rows by grader {grader!r} in the strata {', '.join(plan.strata)}: nothing to test"
        )
    bare = replace(plan, standard=None)  # no covariate, no bounds
    rule = KEEP if plan.standard is None else plan.standard.burned
    kept = keep_rows(graded, rule, control_models(plan))
    seeds = {(entry.wave, entry.model): entry for entry in kept.seeds}
    clean = graded.where(kept.primary)
    verdicts: list[Verdict] = []
    means: list[ArmMean] = []
    waves = sorted(set(graded["wave"].tolist()))
    looks = history.number_looks(waves)
    for wave in waves:
        here = make_seed_means(clean, plan.outcomes, plan.strata, wave=wave)
        if wave in looks:
            results = look_results(
                bare,
                look_data(here, range(len(here.columns))),
                registration,
                hypothesis=hypothesis,
                exploratory=exploratory or looks[wave] > plan.looks,
            )
            verdicts += (note_burned(r.verdict, seeds.get((wave, r.model))) for r in results)
        if clean is not graded:
            here = make_seed_means(graded, plan.outcomes, plan.strata, wave=wave)
        means += _arm_means(here)
    return Analysis(
        plan,
        registration,
        tuple(verdicts),
        tuple(means),
        count_arms(graded),
        burned=kept.seeds,
        before=tuple(early_gaps(plan, graded, history)),
    )


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

"""The report: what a study found, as a frozen value.

It holds aggregates only. No instance id, seed or per-seed score of either arm enters a Report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.calibration import RecordedCalibration
from analysis.data import ArmCount, ResultTable, one_of
from analysis.judges import JudgeColumn, judge_departures
from analysis.picard import TableSet
from analysis.plan import GRADER, Analysis, ArmMean, BurnedSeeds, StandardResult, Verdict
from analysis.probes import Exposure, TextExposure
from analysis.report.changes import Changes
from analysis.report.deviations import burned_departures, deviations
from analysis.report.limits import limits_of
from analysis.report.sections import (
    Cost,
    DimensionMean,
    Effort,
    Loss,
    ToolUseTables,
    add_costs,
    count_losses,
    dimension_means,
    measure_effort,
)
from registry.ledger import Plan, Preregistration, RunManifest, SealedSet
from registry.result_row import Arm, Status


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """What became of the episodes that one model owed in one arm."""

    wave: int
    model: str
    arm: Arm
    owed: int  # by the plan
    scored: int
    model_failure: int
    missing: int
    absent: int  # owed, and not in the table
    seeds: int
    seeds_dropped: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    wave: int
    model: str
    provider: str
    asked: str
    served: tuple[str, ...]
    tranches: tuple[int, ...] = (0,)  # that it ran; 0 is the panel
    retention: str = ""  # what its provider keeps, as the manifest has it; "" where not stated
    settings: tuple[tuple[str, str], ...] = ()  # values as canonical JSON text


@dataclass(frozen=True, slots=True)
class ModelFact:
    """What is documented of a model: dates in ISO 8601; "" where it is not known."""

    name: str
    family: str = ""
    released: str = ""
    cutoff: str = ""  # of its training data


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report says, and nothing that it may not."""

    study: str
    issued: str  # UTC, ISO 8601
    plan: Plan
    registration: str  # digest of the Preregistration
    registered: Preregistration | None  # None of a table from elsewhere
    sealed_root: str  # "" of such a table
    entropy: str  # "" of such a table
    runs: tuple[RunManifest, ...]
    served: tuple[ServedModel, ...]
    verdicts: tuple[Verdict, ...]
    exploratory: tuple[Verdict, ...]
    means: tuple[ArmMean, ...]
    funnel: tuple[FunnelRow, ...]
    deviations: tuple[str, ...]
    templates: TableSet | None = None  # of strata that come from template files
    judges: tuple[JudgeColumn, ...] = ()
    standard: StandardResult | None = None  # of a plan standard-v1
    dimensions: tuple[DimensionMean, ...] = ()
    losses: tuple[Loss, ...] = ()
    effort: tuple[Effort, ...] = ()
    costs: tuple[Cost, ...] = ()
    tools: ToolUseTables | None = None  # without rows by seed
    facts: tuple[ModelFact, ...] = ()
    published: str = ""  # day of the first release of the public arm
    ledger_head: str = ""  # digest of the newest record when this look was first reported
    changes: Changes | None = None  # since the report before
    reserve: tuple[int, ...] = ()  # seeds per arm and stratum of each reserve tranche
    burned: tuple[BurnedSeeds, ...] = ()  # of the models that have any
    exposure: tuple[Exposure, ...] = ()  # probes from memory, of models asked about everything
    calibrations: tuple[RecordedCalibration, ...] = ()  # how large a leak it sees
    description: str = ""  # of the study, by who made it
    texts: tuple[TextExposure, ...] = ()  # how likely models find the texts; exploratory
    text_notes: tuple[str, ...] = ()  # on models that do not tell it

    @property
    def through_wave(self) -> int:
        return max(row.wave for row in self.funnel)

    @property
    def limits(self) -> tuple[str, ...]:
        return limits_of(
            self.plan,
            self.standard,
            of_study=self.registered is not None,
            calibrated=tuple(each.how for each in self.calibrations),
        )

    def fact(self, model: str) -> ModelFact:
        """What is documented of a model, empty where nothing is."""
        return next((each for each in self.facts if each.name == model), ModelFact(model))


def build_report(
    *,
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: ResultTable,
    analysis: Analysis,
    issued: str,
    explored: Sequence[Analysis] = (),
    templates: TableSet | None = None,
    judges: Sequence[JudgeColumn] = (),
    tools: ToolUseTables | None = None,
    facts: Sequence[ModelFact] = (),
    free: Collection[str] = (),
    published: str = "",
    ledger_head: str = "",
    exposure: Sequence[Exposure] = (),
    calibrations: Sequence[RecordedCalibration] = (),
    description: str = "",
    texts: Sequence[TextExposure] = (),
    text_notes: Sequence[str] = (),
) -> Report:
    """The report of an analysis of the registered plan. ``issued`` is the time, UTC ISO 8601;
    the registration is named by the digest that the analysis was given.

    Verdicts that are exploratory, whether from ``explored`` or from a look beyond the registered
    ones, are listed apart. Deviations are worked out here, from the records. Of ``tools`` the rows
    by seed are left out; ``free`` names the models that are bought from nobody.
    """
    plan = registered.plan
    owed = _owed(plan, sealed, runs)
    found = [*analysis.verdicts, *(v for other in explored for v in other.verdicts)]
    return Report(
        study=registered.study,
        issued=issued,
        plan=plan,
        registration=analysis.registration,
        registered=registered,
        sealed_root=sealed.root,
        reserve=sealed.reserve,
        entropy=sealed.entropy,
        runs=tuple(sorted(runs, key=lambda run: run.wave)),
        served=_served(runs, table),
        verdicts=tuple(v for v in found if not v.exploratory),
        exploratory=tuple(v for v in found if v.exploratory),
        means=analysis.means,
        funnel=tuple(_funnel_row(count, owed(count)) for count in analysis.counts),
        deviations=(
            *burned_departures(plan, analysis.burned),
            *_deviations(registered, sealed, runs, table, analysis),
            *judge_departures(plan, judges, sorted({run.wave for run in runs}), published),
        ),
        templates=templates,
        judges=tuple(judges),
        standard=analysis.standard,
        tools=None if tools is None else replace(tools, by_seed=()),
        facts=tuple(facts),
        published=published,
        ledger_head=ledger_head,
        burned=analysis.burned,
        exposure=tuple(exposure),
        calibrations=tuple(calibrations),
        description=description,
        texts=tuple(texts),
        text_notes=tuple(text_notes),
        **_episode_parts(plan, table, free),
    )


def build_table_report(
    name: str, table: ResultTable, analysis: Analysis, departures: Sequence[str], issued: str
) -> Report:
    """The report of an analysis of a table from elsewhere, ``name``: no ledger, no waves that we
    ran. ``departures`` are told as deviations."""
    plan = analysis.plan
    return Report(
        study=name,
        issued=issued,
        plan=plan,
        registration=analysis.registration,
        registered=None,
        sealed_root="",
        entropy="",
        runs=(),
        served=(),
        verdicts=tuple(v for v in analysis.verdicts if not v.exploratory),
        exploratory=tuple(v for v in analysis.verdicts if v.exploratory),
        means=analysis.means,
        funnel=tuple(
            _funnel_row(count, _owed_by_table(plan, table, count)) for count in analysis.counts
        ),
        deviations=(*departures, *burned_departures(plan, analysis.burned)),
        standard=analysis.standard,
        burned=analysis.burned,
        **_episode_parts(plan, table, ()),
    )


def _episode_parts(plan: Plan, table: ResultTable, free: Collection[str]) -> dict[str, Any]:
    """What is told of the episodes themselves, of the registered strata and grader."""
    held = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    return {
        "dimensions": dimension_means(plan, held),
        "losses": count_losses(held),
        "effort": measure_effort(held),
        "costs": add_costs(held, free),
    }


def _deviations(
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: ResultTable,
    analysis: Analysis,
) -> tuple[str, ...]:
    found = deviations(
        registered.plan, table, runs, entropy=sealed.entropy, dirty=registered.provenance.dirty,
        reserve=sealed.reserve,
    )  # fmt: skip
    for run in runs:
        if run.plan != analysis.registration:
            found += (f"Wave {run.wave} was run under another registration than this one.",)
    if analysis.plan != registered.plan:
        found += ("The plan that was run is not the plan that was registered.",)
    return found


def _owed(plan: Plan, sealed: SealedSet, runs: Sequence[RunManifest]) -> Callable[[ArmCount], int]:
    """How many episodes a model owed in an arm of a wave, by the tranches that it was to run."""
    sizes = (plan.seeds_per_arm, *sealed.reserve)
    ran = {(run.wave, name): own for run in runs for name, own in _tranches(run).items()}

    def owed(count: ArmCount) -> int:
        tranches = ran.get((count.wave, count.model), (0,))
        return len(plan.strata) * plan.replicates * sum(sizes[each] for each in tranches)

    return owed


def _tranches(run: RunManifest) -> dict[str, tuple[int, ...]]:
    given = run.tranches or ((0,),) * len(run.models)
    return {pin.name: own for pin, own in zip(run.models, given, strict=True)}


def _owed_by_table(plan: Plan, table: ResultTable, count: ArmCount) -> int:
    """The same of a table, which does not tell how large reserve tranches should be."""
    panel = len(plan.strata) * plan.seeds_per_arm * plan.replicates
    if not table["tranche"].any():
        return panel
    own = (table["wave"] == count.wave) & (table["model"] == count.model)
    own &= table["arm"] == count.arm
    beside = int((table["tranche"][own] > 0).sum())
    return beside + (panel if (table["tranche"][own] == 0).any() else 0)


def _funnel_row(count: ArmCount, owed: int) -> FunnelRow:
    present = count.scored + count.model_failure + count.missing
    return FunnelRow(
        count.wave, count.model, count.arm, owed, count.scored, count.model_failure,
        count.missing, max(0, owed - present), count.seeds, count.seeds_dropped,
    )  # fmt: skip


def _served(runs: Sequence[RunManifest], table: ResultTable) -> tuple[ServedModel, ...]:
    found = []
    for run in sorted(runs, key=lambda run: run.wave):
        for pin in run.models:
            here = (table["wave"] == run.wave) & (table["model"] == pin.name)
            here &= table["status"] != Status.MISSING
            served = tuple(sorted(set(table["served_version"][here]) - {""}))
            found.append(
                ServedModel(
                    run.wave, pin.name, pin.provider, pin.version, served,
                    _tranches(run)[pin.name], dict(run.retention).get(pin.name, ""),
                    pin.settings,
                )
            )  # fmt: skip
    return tuple(found)

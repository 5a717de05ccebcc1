"""The report: the results of a study, as a frozen value, and its form as JSON.

It holds aggregates only. No instance id, seed or per-seed score of either arm enters a Report.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from analysis.data.seed_means import ArmCount
from analysis.data.table import ResultTable, names_in, one_of
from analysis.json_values import Pairs, TextOrNull, plain_values
from analysis.plan.controls import ControlResult
from analysis.plan.describe import describe_plan
from analysis.plan.history import NO_HISTORY, EarlyGap, WaveHistory
from analysis.plan.look import Analysis
from analysis.plan.monitoring import Monitored
from analysis.plan.presets import replicates_of
from analysis.plan.results import PrimaryResult
from analysis.plan.sensitivity import SensitivityResult
from analysis.plan.verdict import Verdict
from analysis.report.deviations import burned_departures, deviations, mode_departures, remarks_on
from analysis.report.episodes import (
    Cost,
    DimensionMean,
    Effort,
    Loss,
    add_costs,
    count_losses,
    dimension_means,
    measure_effort,
)
from analysis.report.facts import LedgerCheckpoint, ModelFact
from analysis.report.json import (
    BurnedBody,
    Changes,
    ExploratoryBody,
    LookBody,
    MeanBody,
    RunBody,
    VerdictBody,
)
from analysis.report.limits import limits_of
from analysis.report.part import Part
from registry.ledger.draw_records import SealedSet, arm_sizes
from registry.ledger.records import Plan, Preregistration, RunManifest
from registry.result_row import GRADER, Arm, Status


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """Outcomes of the episodes that one model owed in one arm."""

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
    """A model of a wave: the version that was asked for, and those that its provider served."""

    wave: int
    model: str
    provider: str
    asked: str
    served: tuple[str, ...]
    tranches: tuple[int, ...] = (0,)  # that it ran; 0 is the panel
    retention: str = ""  # the provider's data retention, by the manifest; "" where not stated
    settings: Pairs = ()  # values as canonical JSON text


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """All that the report says, and nothing that it may not.

    The fields, in this order, are the keys of ``report.json``; names that differ there are given
    as aliases. ``looks``, ``controls``, ``monitoring`` and ``sensitivity`` are of a plan
    standard-v1: empty or None otherwise.
    """

    study: str
    description: TextOrNull = ""  # of the study, by its author
    issued: str  # UTC, ISO 8601
    through_wave: int = 0  # this, `plan_in_words` and `limits` follow from the rest
    registration: str  # digest of the Preregistration
    registered: Annotated[Preregistration | None, Field(exclude=True)] = None  # None: a table's
    sealed_root: TextOrNull = ""
    reserve: tuple[int, ...] = ()  # seeds per arm and stratum of each reserve tranche
    entropy: TextOrNull = ""
    plan: Plan
    plan_in_words: tuple[str, ...] = ()
    verdicts: Annotated[tuple[VerdictBody, ...], Field(serialization_alias="models")]
    exploratory: tuple[ExploratoryBody, ...]
    before_publication: tuple[EarlyGap, ...] = ()  # of waves begun before it: no verdicts
    deviations: tuple[str, ...]  # a sentence each
    means: Annotated[tuple[MeanBody, ...], Field(serialization_alias="scores")]
    funnel: Annotated[tuple[FunnelRow, ...], Field(serialization_alias="episodes")]
    runs: tuple[RunBody, ...] = ()
    served: tuple[ServedModel, ...] = ()
    limits: tuple[str, ...] = ()
    looks: tuple[LookBody, ...] = ()
    controls: tuple[ControlResult, ...] = ()
    monitoring: Monitored | None = None
    sensitivity: tuple[SensitivityResult, ...] = ()
    dimensions: tuple[DimensionMean, ...] = ()
    losses: Annotated[tuple[Loss, ...], Field(serialization_alias="causes")] = ()
    effort: tuple[Effort, ...] = ()
    costs: tuple[Cost, ...] = ()
    published: TextOrNull = ""  # day of the first release of the public arm
    ledger_head: TextOrNull = ""  # digest of the newest record when this look was first reported
    checkpoint: LedgerCheckpoint | None = None  # of the ledger up to that record
    selection: TextOrNull = ""  # what an owner could have chosen, in words
    facts: tuple[ModelFact, ...] = ()
    remarks: tuple[str, ...] = ()  # on doubtful verdicts; they follow from the rest
    changes: Changes | None = None  # since the report before
    burned: tuple[BurnedBody, ...] = ()  # of the models that have any
    parts: Annotated[tuple[Part, ...], Field(exclude=True)] = ()  # of extras: they add their data

    def __post_init__(self) -> None:
        limits = limits_of(
            self.plan,
            self.looks,
            of_study=self.registered is not None,
            leak_found=next((part.leak_found for part in self.parts if part.leak_found), ""),
        )
        object.__setattr__(self, "through_wave", max(row.wave for row in self.funnel))
        object.__setattr__(self, "plan_in_words", tuple(describe_plan(self.plan).split("\n")))
        object.__setattr__(self, "limits", limits)
        remarks = remarks_on(self.verdicts, self.facts, self.published)
        object.__setattr__(self, "remarks", tuple(remarks))

    def __repr__(self) -> str:
        counted = f"{len(self.verdicts)} verdicts, {len(self.deviations)} deviations"
        return f"Report({self.study!r} through wave {self.through_wave}: {counted})"

    @property
    def tested(self) -> list[PrimaryResult]:
        """The results of all looks, in order."""
        return [result for look in self.looks for result in look.results]

    def arms(self, of: Verdict) -> dict[Arm, float]:
        """Return the mean score of a verdict's model in each arm, over all strata."""
        key = of.wave, of.model, ""
        means = (mean for mean in self.means if (mean.wave, mean.model, mean.stratum) == key)
        return {mean.arm: mean.estimate.mean for mean in means}

    def score_gap(self, of: Verdict) -> float:
        """Return the gap of a verdict's model by the plan's first outcome, calibrated if the test
        is."""
        for result in self.tested:
            if (result.verdict.wave, result.model) == (of.wave, of.model) and result.outcomes:
                return result.outcomes[0].gap
        arms = self.arms(of)
        return arms[Arm.PUBLIC] - arms[Arm.PRIVATE]

    def fact(self, model: str) -> ModelFact:
        """Return the documented facts of a model; empty ones if there are none."""
        return next((fact for fact in self.facts if fact.model == model), ModelFact(model))


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, numbers rounded to 9 decimals.

    ``models`` lists the registered verdicts: ``model``, ``wave``, ``verdict``, ``estimate`` (null
    where not testable), ``interval`` [lo, hi], ``upper``, ``p``, ``p_adjusted``, ``n_public``,
    ``n_private``, ``alpha``, ``note``. ``exploratory`` lists others in the same form, with their
    ``hypothesis``. ``before_publication`` has ``model``, ``wave``, ``gap``, ``interval`` and the
    numbers of instances of waves that give no verdict. ``burned`` counts private instances that are
    (B1), by model and wave. ``headlines`` are sentences of parts, whose keys follow.
    """
    body = _adapter().dump_python(report, mode="json", by_alias=True)
    body["headlines"] = [part.headline for part in report.parts if part.headline]
    for part in report.parts:
        body |= part.data
    plain: dict[str, Any] = plain_values(body)
    return plain


@functools.cache
def _adapter() -> TypeAdapter[Report]:
    return TypeAdapter(Report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Records and results that the report of a study is made from. ``issued`` is the time, UTC ISO
    8601; ``free`` names the models that cost nothing; the others are as in ``Report``."""

    registered: Preregistration
    sealed: SealedSet
    runs: Sequence[RunManifest]
    table: ResultTable
    analysis: Analysis
    issued: str
    parts: Sequence[Part] = ()
    free: Collection[str] = ()
    published: str = ""
    history: WaveHistory = NO_HISTORY


def build_report(request: ReportRequest) -> Report:
    """The report of an analysis of the registered plan; the registration is named by the digest
    that the analysis was given.

    Exploratory verdicts, of parts or of a look beyond the registered ones, are listed apart.
    Deviations are worked out here, from the records. Facts are added with ``dataclasses.replace``.
    """
    registered, sealed, runs = request.registered, request.sealed, request.runs
    plan, table, parts = registered.plan, request.table, tuple(request.parts)
    return Report(
        study=registered.study,
        issued=request.issued,
        registered=registered,
        sealed_root=sealed.root,
        reserve=sealed.reserve,
        entropy=sealed.entropy,
        plan=plan,
        deviations=(
            *burned_departures(plan, request.analysis.burned),
            *_deviations(request),
            *(line for part in parts for line in part.deviations),
        ),
        runs=tuple(sorted(runs, key=lambda run: run.wave)),
        served=_served(runs, table),
        published=request.published,
        parts=parts,
        **_results(request.analysis, parts, _owed(plan, sealed, runs)),
        **_episode_parts(plan, table, request.free),
    )


def build_table_report(
    name: str,
    table: ResultTable,
    analysis: Analysis,
    departures: Sequence[str],
    issued: str,
    published: str = "",
) -> Report:
    """The report of an analysis of a table from elsewhere, ``name``: without a ledger or waves of
    this study. ``departures`` are added to the deviations; ``published`` is the day of the
    publication, ISO 8601, "" if unknown."""
    plan = analysis.plan
    return Report(
        study=name,
        issued=issued,
        plan=plan,
        published=published,
        deviations=(*departures, *burned_departures(plan, analysis.burned)),
        **_results(analysis, (), lambda run: run.scored + run.model_failure + run.missing),
        **_episode_parts(plan, table, ()),
    )


def _results(
    analysis: Analysis, parts: Sequence[Part], owed: Callable[[ArmCount], int]
) -> dict[str, Any]:
    """The fields that an analysis gives; some only that of a plan standard-v1."""
    verdicts = [*analysis.verdicts, *(v for part in parts for v in part.exploratory)]
    fields: dict[str, Any] = {
        "registration": analysis.registration,
        "verdicts": tuple(v for v in verdicts if not v.exploratory),
        "exploratory": tuple(v for v in verdicts if v.exploratory),
        "means": analysis.means,
        "funnel": tuple(_funnel_row(count, owed(count)) for count in analysis.counts),
        "burned": analysis.burned,
        "before_publication": analysis.before,
    }
    if (result := analysis.standard) is not None:
        fields |= {
            "looks": result.looks,
            "controls": result.controls,
            "monitoring": result.monitored,
            "sensitivity": result.sensitivity,
        }
    return fields


def _episode_parts(plan: Plan, table: ResultTable, free: Collection[str]) -> dict[str, Any]:
    """Counts and means over the episodes of the registered strata and grader."""
    graded = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    return {
        "dimensions": dimension_means(plan, graded),
        "losses": count_losses(graded),
        "effort": measure_effort(graded),
        "costs": add_costs(graded, free),
    }


def _deviations(request: ReportRequest) -> tuple[str, ...]:
    registered, sealed, analysis = request.registered, request.sealed, request.analysis
    sentences = deviations(
        registered.plan,
        request.table,
        request.runs,
        entropy=sealed.entropy,
        dirty=registered.provenance.dirty,
        drawn=_drawn(registered.plan, sealed),
        history=request.history,
    )
    for run in request.runs:
        if run.plan != analysis.registration:
            sentences += (f"Wave {run.wave} was run under another registration than this one.",)
    sentences += tuple(mode_departures(registered, request.runs))
    if analysis.plan != registered.plan:
        sentences += ("The plan that was run is not the plan that was registered.",)
    return sentences


def _drawn(plan: Plan, sealed: SealedSet) -> dict[tuple[int, str], int]:
    return arm_sizes(plan.strata, plan.seeds_per_arm, sealed.reserve, sealed.units)


def _owed(plan: Plan, sealed: SealedSet, runs: Sequence[RunManifest]) -> Callable[[ArmCount], int]:
    """Return a function: episodes owed in an arm of a wave, by the tranches to be run."""
    sizes = _drawn(plan, sealed).items()
    ran = {(run.wave, name): drawn for run in runs for name, drawn in run.tranches_by_model.items()}

    def owed(count: ArmCount) -> int:
        tranches = ran.get((count.wave, count.model), (0,))
        replicates = replicates_of(plan, count.model)
        return replicates * sum(size for (tranche, _), size in sizes if tranche in tranches)

    return owed


def _funnel_row(count: ArmCount, owed: int) -> FunnelRow:
    present = count.scored + count.model_failure + count.missing
    return FunnelRow(**asdict(count), owed=owed, absent=max(0, owed - present))


def _served(runs: Sequence[RunManifest], table: ResultTable) -> tuple[ServedModel, ...]:
    replies = []
    for run in sorted(runs, key=lambda run: run.wave):
        for pin in run.models:
            here = (table["wave"] == run.wave) & (table["model"] == pin.name)
            here &= table["status"] != Status.MISSING
            served = tuple(sorted(names_in(table["served_version"][here])))
            replies.append(
                ServedModel(
                    wave=run.wave,
                    model=pin.name,
                    provider=pin.provider,
                    asked=pin.version,
                    served=served,
                    tranches=run.tranches_by_model[pin.name],
                    retention=dict(run.retention).get(pin.name, ""),
                    settings=pin.settings,
                )
            )
    return tuple(replies)

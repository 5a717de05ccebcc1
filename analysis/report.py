"""The report: what a study found, as a frozen value.

It holds aggregates only. No instance id, seed or per-seed score of either arm enters a Report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.breakdowntables import TableSet
from analysis.departures import deviations
from analysis.judgecolumns import JudgeColumn, judge_departures
from analysis.load import Table
from analysis.look import Analysis, ArmMean
from analysis.means import ArmCount
from analysis.standard import StandardResult
from analysis.verdict import Verdict
from registry.records import Plan, Preregistration, RunManifest, SealedSet
from registry.tables import Arm, Status

LIMITS = (
    "The test shows whether a model does better on published instances than on held-back ones of "
    "the same draw. It does not show how the published ones reached the model.",
    "A gap that does not reach significance is inconclusive, not proof of a clean model; and a "
    "null gap shows no resistance to contamination unless the model was exposed.",
    "If private instances leak, for instance through a provider that trains on what it is sent, "
    "the gap shrinks: leakage biases towards finding nothing, never towards a false alarm.",
    "The planning figures behind the design (variance shares of instance and run) come from four "
    "models and 16 repeated pairs, and partly from simulated regimes. They should be estimated "
    "again in a pilot that is blind to the arms, and the study sized by it.",
    "Small gaps need many instances. At a one-sided alpha of 0.025 a gap of 5 points needs about "
    "448 instances an arm for 80 % power; shared over eight looks, about 729.",
    "The adjusted p-values hold the chance of any false accusation over the models of a look. They "
    "do not speak about models, tasks or versions that were not run.",
    "No positive or negative control and no second judge is part of the plan basic-v1.",
)


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

    @property
    def through_wave(self) -> int:
        return max(row.wave for row in self.funnel)


def build_report(
    *,
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: Table,
    analysis: Analysis,
    issued: str,
    explored: Sequence[Analysis] = (),
    templates: TableSet | None = None,
    judges: Sequence[JudgeColumn] = (),
) -> Report:
    """The report of an analysis of the registered plan. ``issued`` is the time, UTC ISO 8601;
    the registration is named by the digest that the analysis was given.

    Verdicts that are exploratory, whether from ``explored`` or from a look beyond the registered
    ones, are listed apart. Deviations are worked out here, from the records.
    """
    plan = registered.plan
    found = [*analysis.verdicts, *(v for other in explored for v in other.verdicts)]
    return Report(
        study=registered.study,
        issued=issued,
        plan=plan,
        registration=analysis.registration,
        registered=registered,
        sealed_root=sealed.root,
        entropy=sealed.entropy,
        runs=tuple(sorted(runs, key=lambda run: run.wave)),
        served=_served(runs, table),
        verdicts=tuple(v for v in found if not v.exploratory),
        exploratory=tuple(v for v in found if v.exploratory),
        means=analysis.means,
        funnel=tuple(_funnel_row(plan, count) for count in analysis.counts),
        deviations=(
            *_deviations(registered, sealed, runs, table, analysis),
            *judge_departures(plan, judges, sorted({run.wave for run in runs})),
        ),
        templates=templates,
        judges=tuple(judges),
        standard=analysis.standard,
    )


def build_table_report(
    name: str, table: Table, analysis: Analysis, departures: Sequence[str], issued: str
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
        funnel=tuple(_funnel_row(plan, count) for count in analysis.counts),
        deviations=tuple(departures),
        standard=analysis.standard,
    )


def _deviations(
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: Table,
    analysis: Analysis,
) -> tuple[str, ...]:
    found = deviations(
        registered.plan, table, runs, entropy=sealed.entropy, dirty=registered.provenance.dirty
    )
    for run in runs:
        if run.plan != analysis.registration:
            found += (f"Wave {run.wave} was run under another registration than this one.",)
    if analysis.plan != registered.plan:
        found += ("The plan that was run is not the plan that was registered.",)
    return found


def _funnel_row(plan: Plan, count: ArmCount) -> FunnelRow:
    owed = len(plan.strata) * plan.seeds_per_arm * plan.replicates
    present = count.scored + count.model_failure + count.missing
    return FunnelRow(
        count.wave, count.model, count.arm, owed, count.scored, count.model_failure,
        count.missing, max(0, owed - present), count.seeds, count.seeds_dropped,
    )  # fmt: skip


def _served(runs: Sequence[RunManifest], table: Table) -> tuple[ServedModel, ...]:
    found = []
    for run in sorted(runs, key=lambda run: run.wave):
        for pin in run.models:
            here = (table["wave"] == run.wave) & (table["model"] == pin.name)
            here &= table["status"] != Status.MISSING
            served = tuple(sorted(set(table["served_version"][here]) - {""}))
            found.append(ServedModel(run.wave, pin.name, pin.provider, pin.version, served))
    return tuple(found)

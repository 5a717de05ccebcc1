"""`dosimeter power`: the seeds that a study needs, and the gaps that it can detect, by its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from analysis.data.table import ResultTable
from analysis.errors import AnalysisError
from analysis.levels.power import LevelDesign, LevelPower
from analysis.plan.markers import marker_rates
from analysis.plan.presets import look_alpha, marker_alpha
from analysis.power.power import (
    PowerCurve,
    PowerDesign,
    PowerPoint,
    PowerSetting,
    check_design,
    gaps_curve,
    power_at,
    seeds_curve,
)
from analysis.power.variance_components import (
    Components,
    PilotVariance,
    SimulationSize,
    estimate_components,
    weigh_criteria,
)
from analysis.stats.permutation import Floats
from generators.catalog import Catalog
from generators.grading.rubric import headline_parts, is_static
from registry.ledger.records import Plan
from registry.result_row import GRADER
from study.errors import StudyError
from study.extras.levels.power import level_powers
from study.files import read_from_elsewhere
from study.protocol.draw_checks import tested_models
from study.protocol.protocol import Protocol, Task, read_protocol
from study.steps.lint.later_refusals import share_guessed
from study.steps.register.draw import pilots_of
from study.steps.sweep.spending import example_of
from study.workspace.address import open_study
from study.workspace.snapshot import StudySnapshot, Watch, take_snapshot
from study.workspace.study import Study, is_study

PUBLISHED = (
    "the weights and criteria of the study's tasks, and published results (4 models, 16 repeated "
    "runs)"
)
_SHOWN = ("name", "seeds_per_arm", "replicates", "looks", "alpha", "multiplicity")  # of a plan
TARGET = 0.8  # power wanted for one model with the gap


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """Options of a power simulation: the folder of a study, whose plan is simulated; ``source``, a
    table or a study with rows for the variance components; the gap in one model; and other seeds
    than the plan's."""

    study: Path
    source: Path | None = None
    grader: str | None = None  # of the table, where it has several
    gap: float = 0.10
    seeds: int | None = None  # instances in each arm of a stratum
    effort: SimulationSize = field(default_factory=SimulationSize)


@dataclass(frozen=True, slots=True)
class PowerAnswer:
    """Power as planned, the seeds that the target needs, and the inflation that the plan sees."""

    plan: Plan  # on the strata with both arms
    strata: int  # of them all
    setting: PowerSetting
    components: Components
    source: str
    pilot: PilotVariance | None
    effort: SimulationSize
    planned: PowerPoint
    seeds: PowerCurve
    gaps: PowerCurve
    cost_per_episode: float | None
    levels: tuple[LevelPower, ...] = ()  # above the instance

    def episodes(self, seeds: int) -> int:
        """Of all looks, with the runs of control models before the first and of frozen ones."""
        instances = 2 * seeds * self.strata
        look_runs = self.plan.looks * self.setting.models * self.plan.replicates
        rules, setting = self.plan.standard, self.setting
        rerun = 0 if rules is None else self.plan.looks * len(rules.frozen)
        control_runs = (setting.control_models + rerun) * setting.control_runs
        return instances * (look_runs + control_runs)

    @property
    def markers(self) -> tuple[tuple[float, float], ...]:
        """Shares of the public markers that one model of a look recalls, and the power to find
        it."""
        return marker_rates(self.plan, self.setting.models).found

    def cost(self, seeds: int) -> float | None:
        """USD of all episodes; None where a price is not known."""
        price = self.cost_per_episode
        return None if price is None else price * self.episodes(seeds)

    def as_json(self) -> dict[str, Any]:
        """The answer for ``--json``; costs in USD."""
        plan = self.plan
        return {
            "plan": {name: getattr(plan, name) for name in _SHOWN}
            | {"strata": len(plan.strata), "outcomes": list(plan.outcomes)}
            | {"look_alpha": look_alpha(plan), "look_marker_alpha": marker_alpha(plan)},
            "setting": asdict(self.setting),
            "components": asdict(self.components) | {"from": self.source},
            "pilot": None if self.pilot is None else asdict(self.pilot),
            "effort": asdict(self.effort),
            "cost_per_episode_usd": self.cost_per_episode,
            "planned": self._point(self.planned),
            "markers": [{"recalled": share, "power": power} for share, power in self.markers],
            "needed": self._curve(self.seeds, "seeds"),
            "detectable": self._curve(self.gaps, "gap"),
            "levels": [asdict(level) for level in self.levels],
        }

    def _point(self, point: PowerPoint) -> dict[str, Any]:
        return asdict(point) | {
            "episodes": self.episodes(point.seeds),
            "cost_usd": self.cost(point.seeds),
        }

    def _curve(self, curve: PowerCurve, name: str) -> dict[str, Any]:
        return {
            "target": curve.target,
            name: curve.value,
            f"{name}_by_formula": curve.formula,
            "points": [self._point(point) for point in curve.points],
        }


def answer_power(request: PowerRequest, watch: Watch | None = None) -> PowerAnswer:
    """Simulate power as requested. Raises AnalysisError, StudyError for impossible requests."""
    protocol = read_protocol(request.study)
    plan = protocol.tested_plan()
    if request.seeds is not None:
        plan = replace(plan, seeds_per_arm=request.seeds)
    pilot, source, table = None, PUBLISHED, None
    if request.source is not None:
        table, source = rows_of(request.source, request.grader)
        pilot = variance_of(table, plan.outcomes, source)
    elif request.grader is not None:
        raise StudyError("--grader: it chooses among the rows of `--from TABLE`; give both")
    components = pilot.components if pilot is not None else _expected(plan, protocol)
    setting = plan_setting(request.gap, plan, protocol)
    effort, design = request.effort, PowerDesign(plan, components, setting)
    check_design(design, effort)
    first, second = (partial(_report_half, watch, half) for half in (0, 1))
    return PowerAnswer(
        plan=plan,
        strata=len(protocol.tasks),
        setting=setting,
        components=components,
        source=source,
        pilot=pilot,
        effort=effort,
        planned=power_at(design, effort),
        seeds=seeds_curve(design, effort, TARGET, first),
        gaps=gaps_curve(design, effort, TARGET, second),
        cost_per_episode=None if pilot is None else pilot.cost_usd,
        levels=tuple(level_powers(protocol, _level_design(design), setting.gap, table)),
    )


def _level_design(design: PowerDesign) -> LevelDesign:
    """Return the design of a level but for its units."""
    plan, setting = design.plan, design.setting
    return LevelDesign(
        run_sd=design.components.sd[0],
        instances=min(plan.sizes),
        control_models=setting.control_models,
        control_runs=setting.control_runs,
        models=setting.models,
    )


def registered_design(protocol: Protocol, gap: float) -> PowerDesign:
    """Return the design of a study as it stands, for one model that is inflated by ``gap``, with
    the variance that the weights and criteria of its tasks make."""
    plan = protocol.tested_plan()
    return PowerDesign(plan, _expected(plan, protocol), plan_setting(gap, plan, protocol))


def _report_half(watch: Watch | None, half: int, done: int, of: int) -> None:
    """Report the progress of one of two curves as half of the whole."""
    if watch is not None:
        watch("", half * of + done, 2 * of)


def plan_setting(gap: float, plan: Plan, protocol: Protocol) -> PowerSetting:
    """Return the simulated setting: the most models under test of a wave, the plan's controls, and
    for the power of the study a gap from the middle look on."""
    rules = plan.standard
    return PowerSetting(
        models=max(1, *map(len, tested_models(protocol))),
        control_models=0 if rules is None else len(rules.pre_exposure),
        control_runs=1 if rules is None else rules.control_runs,
        gap=gap,
        onset=plan.looks // 2 or 1,
    )


def variance_of(table: ResultTable, outcomes: Sequence[str], words: str) -> PilotVariance:
    """Return the variance components of a table's rows, from a source that ``words`` name. Raises
    AnalysisError."""
    graded = table.where(table["grader"] == GRADER)
    strata = sorted(set(graded["stratum"].tolist()))
    try:
        return estimate_components(graded, outcomes, strata)
    except AnalysisError as error:
        raise AnalysisError(f"{words}: {error}") from error


def rows_of(source: Path, grader: str | None) -> tuple[ResultTable, str]:
    """Return the rows of one grader of a table's file; or of the closed waves of a study's folder,
    else of its pilot. With their source in words."""
    if not source.is_dir():
        from analysis.data.import_file import read_result_file

        reader = partial(read_result_file, grader=grader)
        return read_from_elsewhere(reader, source), str(source)
    if grader is not None:
        raise StudyError("--grader: of a study the exact grades are taken; leave it out")
    if not is_study(source):
        raise StudyError(f"{source}: neither a table nor a study's folder (no study.yaml)")
    from study.steps.report.look import graded_table

    study = take_snapshot(open_study(source))
    if study.closed_waves:
        return graded_table(study, study.closed_waves), str(source)
    pilot = _newest_pilot(study)
    if pilot is None:
        raise StudyError(
            f"{source}: no wave is closed yet, and no pilot has run on its tasks: "
            f"`dosimeter pilot --study {source}` runs one"
        )
    return graded_table(pilot, [*pilot.waves.values()]), f"the pilot of {source}"


def _newest_pilot(study: Study) -> StudySnapshot | None:
    """Return the study's newest pilot with results on tasks of the study, and on no others."""
    strata = {task.stratum for task in study.protocol.tasks}
    pilots = [
        pilot
        for pilot in map(take_snapshot, pilots_of(study.folder))
        if strata.issuperset(task.stratum for task in pilot.protocol.tasks)
        and any(wave.results for wave in pilot.waves.values())
    ]
    return max(pilots, key=lambda pilot: pilot.ledger.entries()[-1].time, default=None)


def _expected(plan: Plan, protocol: Protocol) -> Components:
    """Return the components that follow from the rubrics of the study's tasks and published
    results."""
    found = weigh_criteria(
        [weigh_task(task, protocol.catalog, plan.outcomes) for task in protocol.tasks]
    )
    return replace(found, guessed=share_guessed(protocol))


@cache
def weigh_task(task: Task, catalog: Catalog, outcomes: tuple[str, ...]) -> Floats:
    """Return the weights (outcomes, parts) that an example of a task gives the parts of its
    criteria in each outcome, with sum 1. Raises StudyError if nothing of it is graded exactly."""
    rubric = example_of(task, catalog).rubric
    parts = [part for part in rubric.parts if part.check is not None]
    rows = Counter(part.metarubric for part in parts)
    counted = np.array([float(part.weight > 0) for part in parts])
    by_weight = np.array([part.weight / rows[part.metarubric] for part in parts])
    sizes = Counter(part.criterion for part in parts)
    needed = counted * [(not is_static(part)) / sizes[part.criterion] for part in parts]
    headline = frozenset(part.id for part in headline_parts(rubric))
    gate_free = by_weight * [part.id in headline for part in parts]
    by_outcome = {"key-fraction": needed, "fraction": counted, "gate-free": gate_free}
    weights = np.array([by_outcome.get(outcome, by_weight) for outcome in outcomes])
    total = weights.sum(axis=1, keepdims=True)
    if not (total > 0).all():
        raise StudyError(f"{task.stratum}: no criterion of its rubric counts in every outcome")
    return np.asarray(weights / total)

"""`dosimeter power`: the seeds that a study needs, and the gaps that it can detect, by its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from analysis.data import ResultTable
from analysis.errors import AnalysisError
from analysis.markers import marker_rates
from analysis.plan import STANDARD, control_models, look_alpha, marker_alpha, standard_plan
from analysis.planning import (
    ARTICLE,
    Components,
    PilotVariance,
    PowerCurve,
    PowerDesign,
    PowerPoint,
    PowerSetting,
    SimulationSize,
    check_design,
    check_target,
    estimate_components,
    gaps_curve,
    power_at,
    seeds_curve,
    weigh_criteria,
)
from analysis.stats import Floats
from generators.catalog import Catalog
from generators.grading import headline_parts, is_static
from registry.ledger import Plan
from registry.result_row import GRADER
from study.errors import StudyError
from study.protocol import Protocol, Task, read_protocol
from study.sweeps import example_of
from study.workspace import is_study, open_study, take_snapshot

Watch = Callable[[str, int, int], None]

PUBLISHED = "published results (4 models, 16 repeated runs)"
STRATA, SEEDS, LOOKS, MODELS = 4, 64, 8, 3  # defaults without study and option
CONTROLS, CONTROL_RUNS = 4, 2


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """Options of a power simulation. None leaves a value to study.yaml, else to the defaults;
    ``source`` is a table or a study with rows for the variance components."""

    study: Path | None = None
    source: Path | None = None
    grader: str | None = None  # of the table, where it has several
    gap: float = 0.10
    study_gap: float = 0.05
    target: float = 0.8
    strata: int | None = None
    seeds: int | None = None
    replicates: int | None = None
    looks: int | None = None
    models: int | None = None
    alpha: float | None = None
    outcomes: tuple[str, ...] = ()
    control_models: int | None = None
    control_runs: int | None = None  # of each on an instance
    onset: int | None = None
    final_only: bool = False
    sd: float | None = None
    seed_share: float | None = None
    shared: float | None = None
    cost_per_episode: float | None = None
    effort: SimulationSize = field(default_factory=SimulationSize)


@dataclass(frozen=True, slots=True)
class PowerAnswer:
    """Power as planned, the seeds that the target needs, and the inflation that the plan sees."""

    plan: Plan
    setting: PowerSetting
    components: Components
    source: str
    pilot: PilotVariance | None
    effort: SimulationSize
    planned: PowerPoint
    seeds: PowerCurve
    gaps: PowerCurve
    cost_per_episode: float | None

    def episodes(self, seeds: int) -> int:
        """Of all looks, with the runs of control models before the first and of frozen ones."""
        instances = 2 * seeds * len(self.plan.strata)
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
            "plan": {
                "name": plan.name,
                "strata": len(plan.strata),
                "seeds_per_arm": plan.seeds_per_arm,
                "replicates": plan.replicates,
                "looks": plan.looks,
                "alpha": plan.alpha,
                "look_alpha": look_alpha(plan),
                "look_marker_alpha": marker_alpha(plan),
                "outcomes": list(plan.outcomes),
                "multiplicity": plan.multiplicity,
            },
            "setting": asdict(self.setting),
            "components": asdict(self.components) | {"from": self.source},
            "pilot": None if self.pilot is None else asdict(self.pilot),
            "effort": asdict(self.effort),
            "cost_per_episode_usd": self.cost_per_episode,
            "planned": self._point(self.planned),
            "markers": [{"recalled": share, "power": power} for share, power in self.markers],
            "needed": self._curve(self.seeds, "seeds"),
            "detectable": self._curve(self.gaps, "gap"),
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
    protocol = None if request.study is None else read_protocol(request.study)
    plan = _plan(request, protocol)
    pilot, source = None, PUBLISHED
    if request.source is not None:
        pilot, source = read_variance(request.source, request.grader, plan.outcomes)
    elif request.grader is not None:
        raise StudyError("--grader: it chooses among the rows of `--from TABLE`; give both")
    if pilot is None and protocol is not None:
        source = f"the weights and criteria of the study's tasks, and {source}"
    components = _components(request, plan, pilot, protocol)
    setting = plan_setting(request, plan, protocol)
    effort, design = request.effort, PowerDesign(plan, components, setting)
    check_design(design, effort)
    check_target(plan, request.target)
    price = request.cost_per_episode
    if price is None and pilot is not None:
        price = pilot.cost_usd
    first, second = (partial(_report_half, watch, half) for half in (0, 1))
    planned = power_at(design, effort)
    seeds = seeds_curve(design, effort, request.target, first)
    gaps = gaps_curve(design, effort, request.target, second)
    return PowerAnswer(
        plan, setting, components, source, pilot, effort, planned, seeds, gaps, price
    )


def registered_design(
    protocol: Protocol, gap: float, components: Components | None = None
) -> PowerDesign:
    """Return the design of a study as it stands, for one model that is inflated by ``gap``; without
    ``components`` the variance is that of the weights and criteria of its tasks."""
    request, plan = PowerRequest(gap=gap), protocol.registered_plan()
    setting = plan_setting(request, plan, protocol)
    components = components or _components(request, plan, None, protocol)
    return PowerDesign(plan, components, setting)


def _report_half(watch: Watch | None, half: int, done: int, of: int) -> None:
    """Report the progress of one of two curves as half of the whole."""
    if watch is not None:
        watch("", half * of + done, 2 * of)


def _plan(request: PowerRequest, protocol: Protocol | None) -> Plan:
    """Return the study's plan, or the preset standard-v1, with the changes of the request."""
    if protocol is None:
        plan = standard_plan(
            _strata(STRATA),
            SEEDS,
            looks=LOOKS,
            pre_exposure=tuple(f"before {number}" for number in range(1, CONTROLS + 1)),
            control_runs=CONTROL_RUNS,
        )
    else:
        plan = protocol.registered_plan()
    changes: dict[str, Any] = {
        "seeds_per_arm": request.seeds,
        "replicates": request.replicates,
        "looks": request.looks,
        "alpha": request.alpha,
        "outcomes": request.outcomes or None,
        "strata": None if request.strata is None else _strata(request.strata),
    }
    return replace(plan, **{name: value for name, value in changes.items() if value is not None})


def _strata(count: int) -> tuple[str, ...]:
    return tuple(f"stratum {number}" for number in range(1, count + 1))


def plan_setting(request: PowerRequest, plan: Plan, protocol: Protocol | None) -> PowerSetting:
    """Return the simulated setting: by the request, else by the study's waves."""
    models = request.models
    if models is None:
        models = MODELS if protocol is None else _most_new(plan, protocol)
    rules = plan.standard
    if rules is None and (request.control_models or request.control_runs):
        raise AnalysisError(f"plan {plan.name} is not calibrated by control models; standard-v1 is")
    planned = (0, 1) if rules is None else (len(rules.pre_exposure), rules.control_runs)
    asked = (request.control_models, request.control_runs)
    controls, runs = (p if a is None else a for p, a in zip(planned, asked, strict=True))
    onset = request.onset if request.onset is not None else plan.looks // 2 or 1
    return PowerSetting(
        models, controls, runs, request.gap, request.study_gap, request.final_only, onset
    )


def _most_new(plan: Plan, protocol: Protocol) -> int:
    """Return the largest number of models of a wave that are no controls."""
    controls = control_models(plan) if plan.name == STANDARD else set()
    return max(1, *(len(set(wave) - set(controls)) for wave in protocol.waves))


def read_variance(
    source: Path, grader: str | None, outcomes: Sequence[str]
) -> tuple[PilotVariance, str]:
    """Return the variance components of the rows of a table's file or of a study's folder, and
    their source in words. Raises StudyError, AnalysisError."""
    table, words = _rows(source, grader)
    graded = table.where(table["grader"] == GRADER)
    strata = sorted(set(graded["stratum"].tolist()))
    try:
        return estimate_components(graded, outcomes, strata), words
    except AnalysisError as error:
        raise AnalysisError(f"{words}: {error}") from error


def _rows(source: Path, grader: str | None) -> tuple[ResultTable, str]:
    """Return the rows of one grader of a table's file; or of the closed waves of a study's folder,
    else of its pilot. With their source in words."""
    if not source.is_dir():
        from analysis.data import read_result_file

        return read_result_file(source, grader=grader), str(source)
    if grader is not None:
        raise StudyError("--grader: of a study the exact grades are taken; leave it out")
    if not is_study(source):
        raise StudyError(f"{source}: neither a table nor a study's folder (no study.yaml)")
    from study.sweeps import exact_table, pilot_table

    study = take_snapshot(open_study(source))
    if study.closed_waves:
        return exact_table(study, study.closed_waves), str(source)
    table = pilot_table(study)
    if table is None:
        raise StudyError(
            f"{source}: no wave is closed yet, and no pilot has run on its models and tasks: "
            f"`dosimeter pilot --study {source}` runs one"
        )
    return table, f"the pilot of {source}"


def _components(
    request: PowerRequest, plan: Plan, pilot: PilotVariance | None, protocol: Protocol | None
) -> Components:
    """Return the pilot's components, else those of the study's rubrics, else those of published
    results, with the changes of the request."""
    if pilot is not None:
        base = pilot.components
    elif protocol is not None:
        weights = [weigh_task(task, protocol.catalog, plan.outcomes) for task in protocol.tasks]
        base = weigh_criteria(weights)
    else:
        base = replace(ARTICLE, sd=_sds(plan.outcomes))
    if request.sd is not None:
        base = replace(base, sd=tuple(sd * request.sd / base.sd[0] for sd in base.sd))
    if request.seed_share is not None:
        base = replace(base, seed_share=request.seed_share)
    if request.shared is not None:
        base = replace(base, shared=request.shared)
    return base


def _sds(outcomes: Sequence[str]) -> tuple[float, ...]:
    by_weight, by_count, of_headlines = ARTICLE.sd
    known = {"score": by_weight, "gate-free": of_headlines}
    return tuple(known.get(outcome, by_count) for outcome in outcomes)


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

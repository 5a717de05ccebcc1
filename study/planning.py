"""`dosimeter power`: the seeds that a study needs, and the gaps that it can detect, by its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from analysis.data import ResultTable
from analysis.errors import AnalysisError
from analysis.plan import STANDARD, control_models, look_alpha, standard_plan
from analysis.planning import (
    ALARM,
    ARTICLE,
    Components,
    NegativeControls,
    PilotVariance,
    PowerCurve,
    PowerDesign,
    PowerPoint,
    PowerSetting,
    Remedy,
    SimulationSize,
    check_design,
    check_target,
    estimate_components,
    find_models,
    find_seeds,
    gaps_curve,
    power_at,
    seeds_curve,
)
from registry.ledger import Plan
from registry.result_row import GRADER
from study.errors import StudyError
from study.protocol import Protocol, read_protocol
from study.workspace import is_study, open_study, take_snapshot

Watch = Callable[[str, int, int], None]

STRATA, SEEDS, LOOKS, MODELS, BEFORE = 4, 64, 8, 3, 4  # defaults without study and option
_CONFIRM = 2.5  # times the replications, for remedies against withheld verdicts


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """Options of a power simulation. None leaves a value to study.yaml, else to the defaults;
    ``source`` is a table or a study with rows for the variance components."""

    study: Path | None = None
    source: Path | None = None
    grader: str | None = None  # of the table, where it has several
    gap: float = 0.05
    target: float = 0.8
    strata: int | None = None
    seeds: int | None = None
    replicates: int | None = None
    looks: int | None = None
    models: int | None = None
    alpha: float | None = None
    outcomes: tuple[str, ...] = ()
    covariate_runs: int | None = None
    pre_exposure: int | None = None  # models, run once over before the first look
    frozen: int | None = None  # of them, run again at the look
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
    remedies: tuple[Remedy, ...] = ()  # where C1 would withhold verdicts of too many looks

    @property
    def often_withheld(self) -> bool:
        """True if C1 withholds the verdicts of a look with a probability above ``ALARM``."""
        return self.planned.withheld is not None and self.planned.withheld > ALARM

    def episodes(self, seeds: int) -> int:
        """Of all looks, with the runs of models from before and of frozen ones."""
        instances = 2 * seeds * len(self.plan.strata)
        look_runs = self.plan.looks * self.setting.models * self.plan.replicates
        return instances * (look_runs + self._control_runs())

    def _control_runs(self) -> int:
        controls, adjusting = self.setting.controls, self.setting.covariate_runs
        if controls is None:
            return adjusting
        baseline = max(adjusting, len(controls.baseline) * self.plan.replicates)
        if controls.runs(self.plan.replicates) == adjusting:  # some of them are the frozen models'
            baseline = len(controls.baseline) * self.plan.replicates
        return baseline + self.plan.looks * len(controls.frozen) * self.plan.replicates

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
                "outcomes": list(plan.outcomes),
                "multiplicity": plan.multiplicity,
            },
            "setting": asdict(self.setting),
            "components": asdict(self.components) | {"from": self.source},
            "pilot": None if self.pilot is None else asdict(self.pilot),
            "effort": asdict(self.effort),
            "cost_per_episode_usd": self.cost_per_episode,
            "planned": self._point(self.planned),
            "controls": self._controls(),
            "needed": self._curve(self.seeds, "seeds"),
            "detectable": self._curve(self.gaps, "gap"),
        }

    def _controls(self) -> dict[str, Any] | None:
        """The effect of C1 on the plan; None where it names no negative control."""
        controls, rules = self.setting.controls, self.plan.standard
        if controls is None or rules is None:
            return None
        return {
            "baseline": list(controls.baseline),
            "frozen": list(controls.frozen),
            "alpha": rules.control_alpha,
            "margin": rules.control_margin,
            "half_width": self.planned.half_width,
            "withheld": self.planned.withheld,
            "withheld_error": self.planned.withheld_error,
            "often_withheld": self.often_withheld,
            "remedies": [asdict(remedy) for remedy in self.remedies],
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
    pilot, source = _pilot(request, plan)
    components = _components(request, plan, pilot)
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
    answer = PowerAnswer(
        plan, setting, components, source, pilot, effort, planned, seeds, gaps, price
    )
    if setting.controls is None or not answer.often_withheld:
        return answer
    # The numbers of instances, or of pre-exposure models, that keep verdicts from being withheld.
    longer = replace(effort, replications=round(_CONFIRM * effort.replications))
    remedies = [
        find(plan, components, setting.controls, longer) for find in (find_seeds, find_models)
    ]
    return replace(answer, remedies=tuple(remedy for remedy in remedies if remedy is not None))


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
            pre_exposure=_before(request.pre_exposure or BEFORE),
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
    controls = _controls(request, plan, protocol)
    runs = request.covariate_runs
    if runs is None:
        runs = _covariate_runs(plan, controls)
    onset = request.onset if request.onset is not None else plan.looks // 2 or 1
    return PowerSetting(models, runs, request.gap, request.final_only, onset, controls)


def _covariate_runs(plan: Plan, controls: NegativeControls | None) -> int:
    """Return the runs of the controls on each instance; 0 if fewer than the plan adjusts by."""
    if plan.standard is None or controls is None:
        return 0
    runs = controls.runs(plan.replicates)
    return runs if runs >= plan.standard.covariate_runs else 0


def _controls(
    request: PowerRequest, plan: Plan, protocol: Protocol | None
) -> NegativeControls | None:
    """Return the negative controls of the plan, each as often as the waves before the first look
    run it, or as many as requested; None if the plan names none."""
    if plan.standard is None:
        if request.pre_exposure is not None or request.frozen is not None:
            raise AnalysisError(f"plan {plan.name} names no negative controls; standard-v1 does")
        return None
    named = plan.standard.pre_exposure
    baseline = named if protocol is None else _baseline(plan, protocol.waves)
    if request.pre_exposure is not None:
        baseline = _before(request.pre_exposure)
    frozen = plan.standard.frozen
    if request.frozen is not None or request.pre_exposure is not None:
        count = len(frozen) if request.frozen is None else request.frozen
        frozen = tuple(dict.fromkeys(baseline))[:count]
        if len(frozen) < count:
            raise AnalysisError(f"{count} frozen models: only {len(frozen)} are from before")
    return NegativeControls(baseline, frozen) if baseline or frozen else None


def _baseline(plan: Plan, waves: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the pre-exposure models, once for each wave that runs them before the first look; else
    of the first wave that has any; once if no wave has them."""
    if plan.standard is None:
        return ()
    named, controls = plan.standard.pre_exposure, control_models(plan)
    first = next((i for i, wave in enumerate(waves) if set(wave) - controls), len(waves))
    by_wave = [[model for model in wave if model in named] for wave in waves]
    runs = [wave for wave in by_wave[:first] if wave] or [wave for wave in by_wave if wave][:1]
    models = [model for wave in runs for model in wave]
    return (*models, *(model for model in named if model not in models))


def _before(count: int) -> tuple[str, ...]:
    return tuple(f"before {number}" for number in range(1, count + 1))


def _most_new(plan: Plan, protocol: Protocol) -> int:
    """Return the largest number of models of a wave that are no controls."""
    controls = control_models(plan) if plan.name == STANDARD else set()
    return max(1, *(len(set(wave) - set(controls)) for wave in protocol.waves))


def _pilot(request: PowerRequest, plan: Plan) -> tuple[PilotVariance | None, str]:
    if request.source is None:
        if request.grader is not None:
            raise StudyError("--grader: it chooses among the rows of `--from TABLE`; give both")
        return None, "published results (4 models, 16 repeated runs)"
    table = _rows(request.source, request.grader)
    graded = table.where(table["grader"] == GRADER)
    strata = sorted(set(graded["stratum"].tolist()))
    try:
        return estimate_components(graded, plan.outcomes, strata), str(request.source)
    except AnalysisError as error:
        raise AnalysisError(f"{request.source}: {error}") from error


def _rows(source: Path, grader: str | None) -> ResultTable:
    """Return the rows of one grader of a table's file, or of the closed waves of a study's
    folder."""
    if not source.is_dir():
        from analysis.data import read_result_file

        return read_result_file(source, grader=grader)
    if grader is not None:
        raise StudyError("--grader: of a study the exact grades are taken; leave it out")
    if not is_study(source):
        raise StudyError(f"{source}: neither a table nor a study's folder (no study.yaml)")
    from study.sweeps import exact_table

    study = take_snapshot(open_study(source))
    if not study.closed_waves:
        raise StudyError(f"{source}: no wave is closed yet; a pilot needs one, swept to its end")
    return exact_table(study, study.closed_waves)


def _components(request: PowerRequest, plan: Plan, pilot: PilotVariance | None) -> Components:
    """Return the pilot's components, else the article's, with the changes of the request."""
    base = ARTICLE if pilot is None else pilot.components
    if pilot is None:
        base = replace(base, sd=_sds(plan.outcomes))
    if request.sd is not None:
        base = replace(base, sd=tuple(sd * request.sd / base.sd[0] for sd in base.sd))
    if request.seed_share is not None:
        base = replace(base, seed_share=request.seed_share)
    if request.shared is not None:
        base = replace(base, shared=request.shared)
    return base


def _sds(outcomes: Sequence[str]) -> tuple[float, ...]:
    known = dict(zip(("score", "fraction"), ARTICLE.sd, strict=True))
    return tuple(known.get(outcome, ARTICLE.sd[0]) for outcome in outcomes)

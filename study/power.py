"""`dosimeter power`: how many seeds a study needs, and what it can see, by its own plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.components import ARTICLE, Components, Pilot, check_components, estimate_components
from analysis.errors import AnalysisError
from analysis.load import Table, make_table
from analysis.plan import GRADER, STANDARD, control_models, look_alpha, standard_plan
from analysis.power import (
    Curve,
    Effort,
    Point,
    Setting,
    check_setting,
    check_target,
    gaps_curve,
    power_at,
    seeds_curve,
)
from registry.records import Plan
from study.errors import StudyError
from study.folder import is_study, open_study
from study.protocol import Protocol, read_protocol

Watch = Callable[[str, int, int], None]

STRATA, SEEDS, LOOKS, MODELS = 4, 64, 8, 3  # where neither study nor option says


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """What is asked. None leaves a thing to study.yaml, else to the defaults; ``source`` is a
    table or a study whose rows tell the variance components."""

    study: Path | None = None
    source: Path | None = None
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
    onset: int | None = None
    final_only: bool = False
    sd: float | None = None
    seed_share: float | None = None
    shared: float | None = None
    cost_per_episode: float | None = None
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True, slots=True)
class PowerAnswer:
    """Power as planned, the seeds that the target needs, and the inflation that the plan sees."""

    plan: Plan
    setting: Setting
    components: Components
    source: str
    pilot: Pilot | None
    effort: Effort
    planned: Point
    seeds: Curve
    gaps: Curve
    cost_per_episode: float | None

    def episodes(self, seeds: int) -> int:
        """Of all looks, with the pre-exposure runs."""
        instances = 2 * seeds * len(self.plan.strata)
        each = self.plan.looks * self.setting.models * self.plan.replicates
        return instances * (each + self.setting.covariate_runs)

    def cost(self, seeds: int) -> float | None:
        """USD of all episodes; None where a price is not known."""
        price = self.cost_per_episode
        return None if price is None else price * self.episodes(seeds)

    def as_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "plan": {
                "name": plan.name, "strata": len(plan.strata), "seeds_per_arm": plan.seeds_per_arm,
                "replicates": plan.replicates, "looks": plan.looks, "alpha": plan.alpha,
                "look_alpha": look_alpha(plan), "outcomes": list(plan.outcomes),
                "multiplicity": plan.multiplicity,
            },
            "setting": asdict(self.setting),
            "components": asdict(self.components) | {"from": self.source},
            "pilot": None if self.pilot is None else asdict(self.pilot),
            "effort": asdict(self.effort),
            "cost_per_episode_usd": self.cost_per_episode,
            "planned": self._point(self.planned),
            "needed": self._curve(self.seeds, "seeds"),
            "detectable": self._curve(self.gaps, "gap"),
        }  # fmt: skip

    def _point(self, point: Point) -> dict[str, Any]:
        return asdict(point) | {
            "episodes": self.episodes(point.seeds),
            "cost_usd": self.cost(point.seeds),
        }

    def _curve(self, curve: Curve, name: str) -> dict[str, Any]:
        return {
            "target": curve.target,
            name: curve.value,
            f"{name}_by_formula": curve.formula,
            "points": [self._point(point) for point in curve.points],
        }


def answer_power(request: PowerRequest, watch: Watch | None = None) -> PowerAnswer:
    """Simulate what is asked. Raises AnalysisError, StudyError for what cannot be."""
    protocol = None if request.study is None else read_protocol(request.study)
    plan = _plan(request, protocol)
    pilot, source = _pilot(request, plan)
    components = _components(request, plan, pilot)
    setting = _setting(request, plan, protocol)
    check_setting(plan, setting, request.effort)
    check_target(plan, request.target)
    check_components(components)
    price = request.cost_per_episode
    if price is None and pilot is not None:
        price = pilot.cost_usd
    parts = _Parts(watch)
    planned = power_at(plan, components, setting, request.effort)
    seeds = seeds_curve(plan, components, setting, request.effort, request.target, parts.first)
    gaps = gaps_curve(plan, components, setting, request.effort, request.target, parts.second)
    return PowerAnswer(
        plan, setting, components, source, pilot, request.effort, planned, seeds, gaps, price
    )


@dataclass(slots=True)
class _Parts:
    """Two curves as one progress."""

    watch: Watch | None

    def first(self, done: int, of: int) -> None:
        if self.watch is not None:
            self.watch("", done, 2 * of)

    def second(self, done: int, of: int) -> None:
        if self.watch is not None:
            self.watch("", of + done, 2 * of)


def _plan(request: PowerRequest, protocol: Protocol | None) -> Plan:
    """The study's plan, or the preset standard-v1, with what the request changes in it."""
    if protocol is None:
        plan = standard_plan(
            _strata(STRATA), SEEDS, looks=LOOKS, pre_exposure=("a model from before",)
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


def _setting(request: PowerRequest, plan: Plan, protocol: Protocol | None) -> Setting:
    models = request.models
    if models is None:
        models = MODELS if protocol is None else _most_new(plan, protocol)
    runs = request.covariate_runs
    if runs is None:
        runs = plan.standard.covariate_runs if plan.standard is not None else 0
    onset = request.onset if request.onset is not None else plan.looks // 2 or 1
    return Setting(models, runs, request.gap, request.final_only, onset)


def _most_new(plan: Plan, protocol: Protocol) -> int:
    """The most models of a wave that are no control."""
    aside = control_models(plan) if plan.name == STANDARD else set()
    return max(1, *(len(set(wave) - set(aside)) for wave in protocol.waves))


def _pilot(request: PowerRequest, plan: Plan) -> tuple[Pilot | None, str]:
    if request.source is None:
        return None, "published results (4 models, 16 repeated runs)"
    table = _rows(request.source)
    graded = table.where(table["grader"] == GRADER)
    strata = sorted(set(graded["stratum"].tolist()))
    try:
        return estimate_components(graded, plan.outcomes, strata), str(request.source)
    except AnalysisError as error:
        raise AnalysisError(f"{request.source}: {error}") from error


def _rows(source: Path) -> Table:
    """Of a table's file, or of the closed waves of a study's folder."""
    if not source.is_dir():
        from analysis.tablefile import read_result_file

        return read_result_file(source)
    if not is_study(source):
        raise StudyError(f"{source}: neither a table nor a study's folder (no study.yaml)")
    from study.looks import read_rows
    from study.runs import closed_wave, closing_manifest

    study = open_study(source)
    records = [closed_wave(study, wave) for wave in range(len(study.protocol.waves))]
    runs = [closing_manifest(study, record) for record in records if record is not None]
    if not runs:
        raise StudyError(f"{source}: no wave is closed yet; a pilot needs one, swept to its end")
    return make_table(read_rows(study, runs))


def _components(request: PowerRequest, plan: Plan, pilot: Pilot | None) -> Components:
    """The pilot's, else the article's, with what the request says of them."""
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

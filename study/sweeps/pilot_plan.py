"""What a pilot runs: its models, tasks and episodes, and what they may cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product

from generators.seed import Seed
from generators.task import DIFFICULTIES, TaskSpec
from harness.episode import Cell, Mode
from harness.model import Usage
from harness.spending import Price
from harness.storage import PILOTS, pilot_key
from registry.canonical import digest_value
from registry.ledger import ModelPin, record_body, record_digest
from study.errors import StudyError
from study.protocol import Task
from study.sweeps.preview import render_tasks
from study.sweeps.spending import example_of, price_pins
from study.workspace import PilotInstance, Study, stored_pilot

_SHARES = (4, 2)  # the usual turn budgets: the task's own, divided by these


@dataclass(frozen=True, slots=True)
class PilotRequest:
    """Options of a pilot: by default every model of study.yaml on its tasks, and a quarter, half
    and all of each task's own turns. With ``difficulties``, the families of its tasks at these;
    with ``turns``, these budgets and the task's own."""

    models: tuple[str, ...] = ()
    difficulties: tuple[str, ...] = ()
    turns: tuple[int, ...] = ()
    instances: int = 4  # of each stratum
    runs: int = 2  # of a model on an instance, with each turn budget
    parallel: int = 4
    allow_unknown_price: bool = False


@dataclass(frozen=True, slots=True)
class PilotForecast:
    """What a pilot still takes for a model: its owed episodes, USD of the first request of each,
    which is a part of the whole, and the most that all may cost; None if unknown."""

    model: str
    free: bool
    episodes: int
    first_usd: float | None
    most_usd: float | None


@dataclass(frozen=True, slots=True)
class PilotTask:
    """A task with the turn budgets that it is run with, rising, and its own turns."""

    task: Task
    budgets: tuple[int, ...]
    limit: int

    def requests(self, turns: int) -> int:
        """Return the most requests of an episode with this budget: a last question comes on top."""
        return 1 if self.task.mode is Mode.SINGLE_TURN else 1 + turns


@dataclass(frozen=True, slots=True)
class PilotCell:
    """An episode of a pilot: the key of its result, and the most requests that it may make."""

    cell: Cell = field(repr=False)
    key: str
    turns: int
    limit: int
    requests: int


def forecast_pilot(study: Study, request: PilotRequest) -> tuple[PilotForecast, ...]:
    """Return what a pilot still takes for each model. Nothing is drawn, sent or written, and no key
    is needed unless a pilot was run before. Raises StudyError as ``run_pilot``."""
    pins, _ = pilot_pins(study, request)
    tasks = pilot_tasks(study, request)
    most = most_requests(tasks)
    pricing = price_pins(study, pins, allow_unknown=True, turns=most)
    rendered = render_tasks(study.protocol, [each.task for each in tasks], pins)
    instances = stored_pilot(study, [each.task for each in tasks], request.instances)
    stored = frozenset(study.store.list(PILOTS))
    forecasts = []
    for pin, priced in zip(pins, pricing.models, strict=True):
        known = pilot_cells(study, pin, tasks, instances, request.runs)
        done = Counter((each.cell.spec.stratum, each.turns) for each in known if each.key in stored)
        runs = request.instances * request.runs
        owed = [
            (each, turns, runs - done[each.task.stratum, turns])
            for each in tasks
            for turns in each.budgets
        ]
        tokens = {r.stratum: r.tokens for r in rendered if r.model == pin.name}
        first = sum(left * tokens[each.task.stratum] for each, _, left in owed)
        requests = sum(left * each.requests(turns) for each, turns, left in owed)
        forecasts.append(
            PilotForecast(
                pin.name,
                priced.free,
                sum(left for *_, left in owed),
                _input_usd(priced.price, first),
                None if priced.bound is None else float(priced.bound / most * requests),
            )
        )
    return tuple(forecasts)


def pilot_pins(
    study: Study, request: PilotRequest
) -> tuple[tuple[ModelPin, ...], tuple[tuple[str, str], ...]]:
    """Return the models to run, and those of study.yaml that are not, with the reason. Raises
    StudyError."""
    known = {pin.name: pin for pin in study.protocol.models}
    reasons = {name: reason for name, pin in known.items() if (reason := _why_not(pin))}
    for name in request.models:
        if name not in known:
            raise StudyError(
                f"--model: there is no model {name!r} in study.yaml; it has {', '.join(known)}"
            )
        if name in reasons:
            raise StudyError(f"--model: {name!r} is {reasons[name]}")
    wanted = request.models or tuple(known)
    pins = tuple(known[name] for name in wanted if name not in reasons)
    if not pins:
        raise StudyError("study.yaml has no model that a pilot can run")
    return pins, tuple((name, reasons[name]) for name in wanted if name in reasons)


def _why_not(pin: ModelPin) -> str:
    """Return the reason why a pilot does not run a model; "" if it does."""
    if pin.provider == "agent_server":
        return "an agent behind a server, which no turn budget binds"
    if dict(pin.settings).get("agent") == '"spiked"':
        return "an agent that knows a release, which has no instance of a pilot"
    return ""


def planned_tasks(study: Study) -> tuple[Task, ...]:
    """Return the tasks of a study in the modes of its newest wave."""
    return study.protocol.wave_tasks(len(study.protocol.waves) - 1)


def pilot_tasks(study: Study, request: PilotRequest) -> tuple[PilotTask, ...]:
    """Return the tasks of a pilot. Raises StudyError if difficulties are asked for, and no task of
    the study has difficulties."""
    tasks, catalog = planned_tasks(study), study.protocol.catalog
    if request.difficulties:
        tasks = tuple(task for task in tasks if task.difficulty in DIFFICULTIES)
        if not tasks:
            raise StudyError(
                "--difficulty: the study's tasks are questions of templates, which have no "
                "difficulty: leave it out"
            )
        families = {(task.family, task.version): task for task in reversed(tasks)}
        tasks = tuple(
            replace(families[name], difficulty=difficulty)
            for name in dict.fromkeys((task.family, task.version) for task in tasks)
            for difficulty in request.difficulties
        )
    made = []
    for task in tasks:
        limit = example_of(task, catalog).brief.limits.turns
        if task.mode is Mode.SINGLE_TURN:
            made.append(PilotTask(task, (1,), 1))
            continue
        usual = [max(1, limit // share) for share in _SHARES]
        budgets = {limit, *(request.turns or usual)}
        made.append(PilotTask(task, tuple(sorted(budgets)), limit))
    return tuple(made)


def most_requests(tasks: Iterable[PilotTask]) -> int:
    """Return the most requests of an episode of any of the tasks."""
    return max(each.requests(each.budgets[-1]) for each in tasks)


def pilot_cells(
    study: Study,
    pin: ModelPin,
    tasks: Sequence[PilotTask],
    instances: Mapping[Task, Sequence[PilotInstance | None]],
    runs: int,
) -> Iterator[PilotCell]:
    """Yield the episodes of a model on the instances that are drawn: first one of each task, then
    the next, and second runs last, so that a pilot that stops early shows something of all."""
    model, folder = record_body(pin), record_digest(pin)
    places = list(zip(*(instances[each.task] for each in tasks), strict=True))
    for replicate, drawn in product(range(runs), places):
        for each, instance in zip(tasks, drawn, strict=True):
            for turns in each.budgets if instance is not None else ():
                task = each.task
                episode = digest_value(
                    {
                        "pilot": study.protocol.name,
                        "instance": instance.instance,
                        "model": model,
                        "turns": turns,
                        "replicate": replicate,
                        "mode": str(task.mode),
                    }
                )
                cell = Cell(
                    episode=episode,
                    spec=TaskSpec(task.family, task.version, task.difficulty, ()),
                    instance=instance.instance,
                    seed=Seed.from_hex(instance.seed),
                    model=pin.name,
                    replicate=replicate,
                    mode=task.mode,
                )
                key = pilot_key(folder, episode)
                yield PilotCell(cell, key, turns, each.limit, each.requests(turns))


def _input_usd(price: Price | None, tokens: int) -> float | None:
    return None if price is None else float(price.cost(Usage(tokens, 0)) or Decimal())

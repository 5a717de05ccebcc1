"""`dosimeter pilot`: a scratch study of the same models and tasks, run before a plan is fixed.

The scratch study lies in a folder under ``pilot/`` beside study.yaml. It has a draw, a ledger and a
store of its own, and the ordinary steps run it: its episodes are resumed, paid for and stored as
those of any wave. Its name follows from what it runs, so that the same request resumes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from analysis.power.pilot import TurnScore, score_by_turns
from generators.templates.library import NAMES
from harness.episode import Mode
from harness.episodes.result import EpisodeResult
from harness.spending.budget import PricedModel, Spend
from harness.sweep.leases import Progress
from registry.canonical import digest_value
from registry.files import write_whole
from registry.ledger.records import ModelPin
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME, read_protocol
from study.protocol.yaml import read_yaml
from study.steps.register.draw import PILOTS, draw_seeds, pilots_of
from study.steps.sweep.spending import example_of, lock_budget, price_pins, wave_spends
from study.steps.sweep.sweep import SweepOutcome, SweepRequest, sweep_wave
from study.workspace.address import open_study
from study.workspace.setup import Watch, register_plan
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

N = TypeVar("N", int, float)

_SCHEMES = ("s3:", "file:", "/")  # of a store that is no folder of the study
_DRAFT = f".{FILE_NAME}.new"
_COPIED = ("sandbox", "sweep", "recipients")


@dataclass(frozen=True, slots=True)
class PilotRequest:
    """Options of a pilot: by default every model of study.yaml on its tasks."""

    models: tuple[str, ...] = ()
    seeds: int = 2  # instances in each of the pilot's two arms, by stratum
    runs: int = 2  # of a model on an instance
    allow_unknown_price: bool = False


@dataclass(frozen=True, slots=True)
class PilotModel:
    """A model's finished runs: tokens and USD are sums, None if one is unknown."""

    model: str
    free: bool
    runs: int
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None

    @property
    def usd_of_run(self) -> float | None:
        """Mean cost of a finished run; None if it is unknown."""
        return self.usd / self.runs if self.usd is not None and self.runs else None


@dataclass(frozen=True, slots=True)
class PilotOutcome:
    """Results of a pilot so far, and those of the sweep that made them."""

    folder: Path
    pins: tuple[ModelPin, ...]
    swept: SweepOutcome
    scores: tuple[TurnScore, ...]
    models: tuple[PilotModel, ...]
    skipped: tuple[tuple[str, str], ...]  # models that are not run, and why

    @property
    def complete(self) -> bool:
        """True if nothing more is owed."""
        return self.swept.closed is not None


def run_pilot(
    study: Study,
    request: PilotRequest,
    watch: Callable[[Progress], None],
    steps: Watch,
    now: Callable[[], str],
) -> PilotOutcome:
    """Run the episodes that a pilot still owes, as far as the study's budget goes for all of its
    pilots, and return the results of all. Raises as the steps of a study do."""
    pins, skipped = _pins(study, request)
    if judged := study.protocol.judged:
        raise StudyError(f"a pilot has no judge, which {', '.join(judged)} need for their scores")
    with ExitStack() as stack:
        lock_budget(study, (), stack)
        scratch = _write(study, request, pins)
        draw_seeds(scratch, lambda *step: steps("drawing the pilot's instances", 0, 0), now)
        register_plan(scratch, lambda *step: None, now())
        wanted = SweepRequest(0, allow_dirty=True, allow_unknown_price=request.allow_unknown_price)
        spent = _spent_by_others(study, scratch)
        swept = sweep_wave(scratch, wanted, watch, now, steps, spent)
    return _outcome(scratch, swept, skipped)


def _pins(
    study: Study, request: PilotRequest
) -> tuple[tuple[ModelPin, ...], tuple[tuple[str, str], ...]]:
    """Return the models to run, and those of study.yaml that are not, with the reason. Raises
    StudyError."""
    known = {pin.name: pin for pin in study.protocol.models}
    spiked = {n for n, pin in known.items() if dict(pin.settings).get("agent") == '"spiked"'}
    reason = "an agent that knows a release, which has no instance of a pilot"
    for name in request.models:
        if name not in known:
            raise StudyError(
                f"--model: there is no model {name!r} in study.yaml; it has {', '.join(known)}"
            )
        if name in spiked:
            raise StudyError(f"--model: {name!r} is {reason}")
    wanted = request.models or tuple(known)
    pins = tuple(known[name] for name in wanted if name not in spiked)
    if not pins:
        raise StudyError("study.yaml has no model that a pilot can run")
    return pins, tuple((name, reason) for name in wanted if name in spiked)


def _write(study: Study, request: PilotRequest, pins: Sequence[ModelPin]) -> Study:
    """Write the scratch study, or its current budget and settings if it is there, and open it."""
    folder = study.folder / PILOTS / _name(study, request, pins)
    text = _text(study, request, pins, Path("../.."))
    study.own_identities()  # nothing is written that cannot be signed
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _DRAFT, text)
        read_protocol(folder, _DRAFT)  # a protocol that does not hold makes no study
        (folder / _DRAFT).replace(folder / FILE_NAME)
    except OSError as error:
        raise StudyError(f"{folder}: {error.strerror}") from error
    return open_study(folder)


def _name(study: Study, request: PilotRequest, pins: Sequence[ModelPin]) -> str:
    """Return the name of a pilot's folder: a digest of what it runs."""
    sections = _sections(study)
    tasks = study.protocol.tasks
    body = {
        "study": study.protocol.name,
        "models": [[pin.name, json.dumps(sections[pin.name], default=str)] for pin in pins],
        "tasks": [[t.family, t.version, t.difficulty, str(t.mode)] for t in tasks],
        "runs": [request.seeds, request.runs],
        "sandbox": [study.protocol.sandbox.kind, str(study.protocol.sandbox.image or "")],
    }
    return digest_value(body).removeprefix("sha256:")[:12]


def _sections(study: Study) -> dict[str, Any]:
    sections: dict[str, Any] = read_yaml(study.folder / FILE_NAME).value["models"]
    return sections


def _text(study: Study, request: PilotRequest, pins: Sequence[ModelPin], base: Path) -> str:
    """Return study.yaml of the scratch study. ``base`` is the study's folder, as seen from it."""
    document, protocol = read_yaml(study.folder / FILE_NAME).value, study.protocol
    names, name = [pin.name for pin in pins], _name(study, request, pins)
    body = {key: document[key] for key in _COPIED if key in document}
    if "sweep" in body:
        body["sweep"] = {key: _of_models(v, names) for key, v in body["sweep"].items()}
    if "budget" in document:
        budget = {k: v for k, v in document["budget"].items() if k != "judges"}
        body["budget"] = budget | {"models": _of_models(budget.get("models", {}), names)}
    if protocol.prices is not None:
        body["prices"] = str(base / protocol.prices)
    if protocol.entropy != "system":
        seed = hashlib.sha256(f"{protocol.entropy}|pilot|{name}".encode()).hexdigest()
        body["entropy"] = f"fixed:{seed}"
    body |= {
        "study": f"{protocol.name[:50]}-pilot",
        "tasks": [_task(study, task, base) for task in document["tasks"]],
        "seeds_per_arm": request.seeds,
        "replicates": request.runs,
        "models": {model: document["models"][model] for model in names},
        "waves": [names],
        "store": _store(protocol.store, name),
        "keys": str(base / protocol.keys),
    }
    return json.dumps(body, indent=1, ensure_ascii=False, default=str) + "\n"


def _of_models(value: Any, names: Sequence[str]) -> Any:
    """Return a limit by model for these models alone; any other value as it is."""
    if isinstance(value, dict):
        return {name: limit for name, limit in value.items() if name in names}
    return value


def _task(study: Study, task: Any, base: Path) -> Any:
    """Return a task as study.yaml has it, but for its tranche, with the path to its template or
    pool from ``base``."""
    if isinstance(task, dict):
        task = {key: value for key, value in task.items() if key != "tranche"}
    if isinstance(task, dict) and "items" in task:
        return task | {"items": str(base / task["items"])}
    if isinstance(task, dict) and "template" in task:
        return task | {"template": _task(study, task["template"], base)}
    if isinstance(task, str) and task.endswith((".yml", ".yaml")):
        return task if task in NAMES and not (study.folder / task).is_file() else str(base / task)
    return task


def _store(stated: str, name: str) -> str:
    """Return the store of a pilot: a folder of its own, or a place beside the study's. Raises
    StudyError for a whole bucket, which has nothing beside it."""
    if not stated.startswith(_SCHEMES):
        return "store"
    place, mark, query = stated.partition("?")
    place = place.rstrip("/")
    if place.startswith("s3:") and place.count("/") < 3:
        raise StudyError(f"store: {stated}: a pilot needs a prefix in the bucket for its own store")
    return f"{place}-pilot-{name}{mark}{query}"


def _spent_by_others(study: Study, scratch: Study) -> tuple[tuple[PricedModel, Spend], ...]:
    """Return what the study's other pilots have cost, which its budget has paid for as well."""
    if study.protocol.budget is None:
        return ()
    others = [pilot for pilot in pilots_of(study.folder) if pilot.folder != scratch.folder]
    return tuple(spent for pilot in others for spent in wave_spends(pilot, 0))


def _outcome(
    scratch: Study, swept: SweepOutcome, skipped: tuple[tuple[str, str], ...]
) -> PilotOutcome:
    """Return the results of a pilot's finished runs."""
    snapshot, catalog = take_snapshot(scratch), scratch.protocol.catalog
    results = [result for wave in snapshot.waves.values() for result in wave.results.values()]
    pins = scratch.protocol.models
    names = [pin.name for pin in pins]
    results.sort(key=lambda result: names.index(result.model))
    tasks = scratch.protocol.tasks
    limits = {
        task.stratum: 1
        if task.mode is Mode.SINGLE_TURN
        else example_of(task, catalog).brief.limits.turns
        for task in tasks
    }
    return PilotOutcome(
        folder=scratch.folder,
        pins=pins,
        swept=swept,
        scores=score_by_turns(results, limits),
        models=tuple(_models(price_pins(scratch, pins, allow_unknown=True).models, results)),
        skipped=skipped,
    )


def _models(
    models: Sequence[PricedModel], results: Sequence[EpisodeResult]
) -> Iterator[PilotModel]:
    for model in models:
        runs = [result for result in results if result.model == model.name]
        yield PilotModel(
            model=model.name,
            free=model.free,
            runs=len(runs),
            input_tokens=_sum([run.input_tokens for run in runs]),
            output_tokens=_sum([run.output_tokens for run in runs]),
            usd=_sum([run.cost_usd for run in runs]),
        )


def _sum(values: Sequence[N | None]) -> N | None:
    """Return the sum; None if a value is unknown, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None

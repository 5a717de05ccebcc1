"""Every grade rebuilt: from its stored attempt, the instance made again from the sealed draw, and
this code; and the grades of extras. Replies are read again from their bytes as received: where
another version of the code reads them otherwise, the row is named.

Work is shared out by instance, each of which is made once. Episodes and folders are named, fields
that differ too; what they hold is not shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.task import TaskInstance
from harness.episode import Cell, Episode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.result import RESULT_CODEC, summarise_episode
from harness.errors import HarnessError
from harness.models.providers.bodies import is_read_alike
from harness.spending.prices import Price
from harness.storage import EPISODE_CODEC, attempt_key, result_key
from harness.sweep.workbench import instance_of
from registry.errors import BrokenPromise, MissingKey
from registry.ledger.records import record_digest
from registry.provenance import read_provenance
from registry.sealing import Keys, run_name
from registry.stores import open_store
from registry.stores.base import Store
from study.catalogue import contributions
from study.steps.sweep.manifests import check_grading
from study.steps.sweep.spending import price_pins
from study.workspace.setup import Watch, registration_of
from study.workspace.snapshot import StudySnapshot, WaveSnapshot, take_snapshot
from study.workspace.study import CHECKOUT, Study

Finding = tuple[str, str]  # place, problem; a place "" is a check that was not possible
_EACH = 4  # instances that a process takes at a time


@dataclass(frozen=True, slots=True)
class RemadeEpisode:
    """An episode whose grade is made again, for an extra that has graded it too."""

    store: Store
    keys: Keys
    wave: int
    cell: Cell
    instance: TaskInstance
    attempt: Episode  # that counts


class GradeCheck(Protocol):
    """Grades of a wave by an extra; may be sent to another process."""

    def check(self, made: RemadeEpisode, counts: Counter[str]) -> Iterator[Finding]:
        """Yield how the grade of an episode differs when it is made again, and count it."""


@dataclass(frozen=True, slots=True)
class Regrades:
    """The grades of an extra by the wave of their answers, and the checks that are not possible."""

    checks: tuple[tuple[int, GradeCheck], ...]
    unchecked: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Wave:
    """What the grades of a wave rest on. ``runs`` are the digests of its manifests."""

    number: int
    runs: frozenset[str]
    closed: bool
    prices: Mapping[str, Price | None] | None  # None if they are not those of its manifest
    extras: tuple[GradeCheck, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    """What a process needs. ``keys`` sign nothing."""

    store: str
    keys: Keys
    templates: tuple[tuple[str, str, str], ...]
    waves: Mapping[int, _Wave]


Cells = tuple[tuple[int, Cell], ...]  # of one instance, each with its wave


def regrade_study(
    study: Study, watch: Watch, processes: int, counts: dict[str, int]
) -> Iterator[Finding]:
    """Make each grade of the waves that were begun again, and yield those that differ; ``counts``
    gets the numbers of grades. Needs the study's key.

    Raises BrokenPromise if known answers are graded otherwise than at the registration.
    """
    check_grading(study, registration_of(study))
    snapshot = take_snapshot(study)
    extras: list[Regrades] = [regrades(snapshot) for regrades in contributions("regrades")]
    waves = {number: _wave_of(snapshot, wave, extras) for number, wave in snapshot.waves.items()}
    yield from _unchecked(snapshot, waves)
    yield from (finding for extra in extras for finding in extra.unchecked)
    own, manifests = snapshot.keys(), [wave.manifest for wave in snapshot.waves.values()]
    runs = {run_name(each.run_recipient): snapshot.run_identity(each) for each in manifests}
    keys = Keys(identities=own.identities, trusted=own.trusted, runs=runs.get)
    task = _Task(study.store.uri, keys, study.protocol.templates, waves)
    by_instance: dict[str, list[tuple[int, Cell]]] = defaultdict(list)
    for number, wave in snapshot.waves.items():
        for cell in wave.finished_cells() if wave.closed is None else wave.cells:
            by_instance[cell.instance].append((number, cell))
    work = [tuple(cells) for cells in by_instance.values()]
    found, total = Counter[str](), len(work)
    for done, (findings, made) in enumerate(_run(study, task, work, processes), 1):
        yield from findings
        found.update(made)
        watch("grading again, by instance", done, total)
    counts.update(sorted(found.items()))


def _run(
    study: Study, task: _Task, work: Sequence[Cells], processes: int
) -> Iterator[tuple[list[Finding], Counter[str]]]:
    if processes < 2 or len(work) < 2 * _EACH:
        _begin(task)
        yield from map(_regrade_instance, work)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin, (task,)) as pool:
        yield from pool.map(_regrade_instance, work, chunksize=_EACH)


def _wave_of(study: StudySnapshot, wave: WaveSnapshot, extras: Sequence[Regrades]) -> _Wave:
    manifest = wave.manifest
    pricing = price_pins(study, manifest.models, allow_unknown=True)
    same = pricing.prices.digest == manifest.prices
    prices = {pin.name: pricing.price_of(pin.name) for pin in manifest.models}
    return _Wave(
        wave.number,
        frozenset(map(record_digest, wave.manifests)),
        wave.closed is not None,
        prices if same else None,
        tuple(check for extra in extras for number, check in extra.checks if number == wave.number),
    )


def _unchecked(study: StudySnapshot, waves: Mapping[int, _Wave]) -> Iterator[Finding]:
    """Yield what cannot be made again here."""
    now = read_provenance(CHECKOUT, "none")
    for number, wave in study.waves.items():
        made = wave.manifest.provenance
        if made.dirty or now.dirty or made.commit != now.commit:
            yield (
                "",
                f"that wave {number} was graded by this very code: it names {made.code}, and this "
                f"is {now.code}; both grade known answers alike",
            )
        if waves[number].prices is None:
            yield "", f"the cost of wave {number}: the price file is not the one that it names"


# -- in each process

_bench: _Bench


class _Bench:
    """What a process has opened."""

    def __init__(self, task: _Task) -> None:
        self.task, self.store = task, open_store(task.store)
        self.catalog = INSTALLED
        if task.templates:
            from generators.dressings.family import catalog_with

            self.catalog = catalog_with(task.templates)


def _begin(task: _Task) -> None:
    global _bench
    _bench = _Bench(task)


def _regrade_instance(cells: Cells) -> tuple[list[Finding], Counter[str]]:
    counts = Counter[str]()
    try:
        instance = instance_of(cells[0][1], _bench.catalog)
    except (HarnessError, GeneratorError) as error:
        return [(result_key(cell.episode), f"no grade: {error}") for _, cell in cells], counts
    return [
        finding
        for number, cell in cells
        for finding in _regrade_cell(_bench.task.waves[number], cell, instance, counts)
    ], counts


def _regrade_cell(
    wave: _Wave, cell: Cell, instance: TaskInstance, counts: Counter[str]
) -> Iterator[Finding]:
    key, store, keys = result_key(cell.episode), _bench.store, _bench.task.keys
    try:
        stored = RESULT_CODEC.read(store, key, keys)
        attempts = [
            EPISODE_CODEC.read(store, attempt_key(cell.episode, number), keys)
            for number in range(1, stored.attempts + 1)
        ]
        if not stored.grade.parts:
            yield "", f"scores of wave {wave.number} that are those of another harness's logs"
            return
        if not attempts:
            raise BrokenPromise(f"{key}: a result without an attempt")
        yield from _check_attempts(wave, cell, attempts)
        last = attempts[-1]
        price = None if wave.prices is None else wave.prices[cell.model]
        grade = grade_episode(instance, last)
        made = summarise_episode(wave.number, cell, last, grade, len(attempts), price)
    except (MissingKey, BrokenPromise, HarnessError) as error:
        yield key, f"its grade cannot be made again: {str(error).removeprefix(f'{key}: ')}"
        return
    counts["grades made again"] += 1
    left_out = () if wave.prices is not None else ("cost_usd",)
    if names := [name for name in differences(stored, made) if name not in left_out]:
        yield key, f"is not what its attempt and this code give: {', '.join(names)} differ"
    read = [is_read_alike(turn.reply) for turn in last.steps]
    counts["replies read again"] += sum(bool(turn.reply.reading) for turn in last.steps)
    if not all(read):
        turns = ", ".join(str(number) for number, alike in enumerate(read, 1) if not alike)
        yield key, f"this code reads the replies of turns {turns} otherwise: its row may change"
    remade = RemadeEpisode(store, keys, wave.number, cell, instance, attempt=last)
    for extra in wave.extras:
        yield from extra.check(remade, counts)


def _check_attempts(wave: _Wave, cell: Cell, attempts: Sequence[Episode]) -> Iterator[Finding]:
    """Yield which attempts are not this episode's, or did not fail before another one."""
    for number, attempt in enumerate(attempts, 1):
        own = (cell.episode, cell.instance, cell.model, cell.replicate, number)
        names = (attempt.id, attempt.instance, attempt.model, attempt.replicate, attempt.attempt)
        place = attempt_key(cell.episode, number)
        if names != own or attempt.run not in wave.runs:
            yield place, "an attempt at another episode than its name says, or of another run"
        if number < len(attempts) and attempt.stop is not StopReason.FAILED:
            yield place, "did not fail, and another attempt was made after it"


def differences(stored: Any, made: Any, before: str = "") -> list[str]:
    """Return the names of the fields in which two records of one type differ."""
    names: list[str] = []
    for each in fields(stored):
        was, is_now = getattr(stored, each.name), getattr(made, each.name)
        if is_dataclass(was) and type(was) is type(is_now):
            names += differences(was, is_now, f"{before}{each.name}.")
        elif was != is_now:
            names.append(f"{before}{each.name}")
    return names

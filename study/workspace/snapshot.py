"""A study at one moment, read once by a command and passed on. Its waves as ledger and store
have them: manifests, cells, finished episodes."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.storage import attempted_names, finished_names, result_key
from harness.sweep.schedule import Schedule, WaveInstance, WavePlan, schedule_cells
from registry.ledger.records import RunManifest, WaveClosed
from registry.sealing import DrawnInstance
from registry.stores.parallel import parallel_map
from study.workspace.study import Study, closed_wave, closing_manifest, manifests_of
from study.workspace.tables import WaveTable

logger = logging.getLogger(__name__)
T = TypeVar("T")
_HEX = re.compile(r"[0-9a-f]{64}")

Watch = Callable[[str, int, int], None]  # what, done, of


def _read_once(read: Callable[[Study], T]) -> Callable[[Study], T]:
    """Return a method of a snapshot that calls one of the study when it is first called."""

    @wraps(read)
    def method(self: Study) -> T:
        values, name = vars(self), f"_{read.__name__}"
        if name not in values:
            values[name] = read(self)
        kept: T = values[name]
        return kept

    return method


@dataclass(frozen=True)
class StudySnapshot(Study):
    """A study at one moment. The ledger is read when the snapshot is taken; key, draw, lists and
    results are read when first asked for, and once. Reading functions take a snapshot where a
    command needs several of them; functions that write take the study."""

    watch: Watch = lambda what, done, of: None  # gets the progress of work that may take long

    identities = _read_once(Study.identities)
    keys = _read_once(Study.keys)
    entries = _read_once(Study.entries)
    instances = _read_once(Study.instances)

    @cached_property
    def waves(self) -> Mapping[int, WaveSnapshot]:
        """The planned waves that were begun, by number."""
        return {
            number: WaveSnapshot(self, number, manifests, closed_wave(self.ledger, number))
            for number in range(len(self.protocol.waves))
            if (manifests := manifests_of(self.ledger, number))
        }

    @property
    def closed_waves(self) -> tuple[WaveSnapshot, ...]:
        """The closed waves in order."""
        return tuple(wave for wave in self.waves.values() if wave.closed is not None)

    def finished_names(self) -> Iterator[str]:
        """Yield the 64 digits of each episode that has a result, in order."""
        names = self._finished_names
        return (names[at : at + 32].hex() for at in range(0, len(names), 32))

    @cached_property
    def attempts(self) -> Counter[str]:
        """The number of stored attempts by episode, 64 hexadecimal digits, in their order."""
        return Counter(attempted_names(self.store))

    @cached_property
    def _finished_names(self) -> bytearray:
        """The names of all episodes that have a result, 32 bytes each."""
        names = bytearray()
        for name in finished_names(self.store):
            if _HEX.fullmatch(name):
                names += bytes.fromhex(name)
        return names


@dataclass(frozen=True)
class WaveSnapshot:
    """A wave that was begun, at the moment of its study's snapshot. Its cells and results need the
    study's key."""

    study: StudySnapshot
    number: int
    manifests: tuple[RunManifest, ...]  # oldest first
    closed: WaveClosed | None

    @cached_property
    def manifest(self) -> RunManifest:
        """The manifest that counts: the one the wave was closed for, else the newest. Raises
        BrokenPromise."""
        if self.closed is None:
            return self.manifests[-1]
        return closing_manifest(self.study.ledger, self.closed)

    @cached_property
    def cells(self) -> Schedule:
        """Every cell, in the order of the schedule."""
        return cells_of(self.study, self.manifest)

    @cached_property
    def finished(self) -> bytearray:
        """A byte for each cell, 1 if it has a result."""
        return self.cells.marks(self.study.finished_names())

    @property
    def owed(self) -> int:
        """Number of cells that have no result yet."""
        return self.finished.count(0)

    def finished_cells(self) -> Iterator[Cell]:
        """Yield the cells that have a result, in the order of the schedule."""
        return (self.cells[n] for n in range(len(self.cells)) if self.finished[n])

    def owed_cells(self) -> Iterator[Cell]:
        """Yield the cells that have no result yet, in the order of the schedule."""
        return self.cells.unmarked(self.finished)

    @cached_property
    def results(self) -> Mapping[str, EpisodeResult]:
        """The results by episode, in the order of their store keys. Those of a closed wave are the
        ones that the ledger records; their rows are stored when first derived. Raises
        BrokenPromise."""
        if self.closed is not None:
            logger.info("wave %d: reading the rows of %d results", self.number, self.closed.owed)
            what = f"deriving the rows of wave {self.number}"
            table = WaveTable(self.study, self.closed)
            rows = table.results(lambda done, of: self.study.watch(what, done, of))
            return {result.episode: result for result in rows}
        keys = sorted(result_key(cell.episode) for cell in self.finished_cells())
        logger.info("wave %d: reading %d results", self.number, len(keys))
        store, own = self.study.store, self.study.keys()
        results = parallel_map(store, lambda key: RESULT_CODEC.read(store, key, own), keys)
        return {result.episode: result for result in results}


def take_snapshot(study: Study, watch: Watch = lambda what, done, of: None) -> StudySnapshot:
    """Read the ledger of a study, once; the rest follows on demand. ``watch`` gets the progress of
    what may take long then. Raises BrokenPromise."""
    ledger = study.ledger.held(grows=False)
    logger.info("ledger: %d records", len(ledger.entries()))
    return StudySnapshot(study.folder, study.protocol, study.store, ledger, watch)


def cells_of(study: Study, manifest: RunManifest) -> Schedule:
    """Return every cell of a wave in the order of its schedule. Needs the study's key or the
    operator's. Raises RegistryError."""
    instances = instances_of(study.instances(), manifest)
    return schedule_cells(WavePlan.of(manifest), instances, study.run_identity(manifest))


def instances_of(drawn: Iterable[WaveInstance], manifest: RunManifest) -> tuple[WaveInstance, ...]:
    """Return those of the drawn instances that a wave runs, in their order."""
    tranches = {0} if not manifest.tranches else {n for each in manifest.tranches for n in each}
    return tuple(instance for instance in drawn if instance.tranche in tranches)


def without_arms(entries: Iterable[DrawnInstance]) -> tuple[WaveInstance, ...]:
    """Return instances without their arms, in an order that does not reveal them."""
    instances = (
        WaveInstance(
            TaskSpec(entry.family, entry.version, entry.difficulty, ()),
            entry.instance,
            Seed.from_hex(entry.seed),
            entry.tranche,
        )
        for entry in entries
    )
    return tuple(sorted(instances, key=lambda each: each.instance))

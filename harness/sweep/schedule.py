"""The cells of a wave as a computed sequence: nothing of it is stored but the wave's instances.

The cells of a model, its instances times its replicates, come in rounds. Each round has up to eight
replicates of every instance, and a permutation of the instances, so that arms and strata
interleave. The replicates of an instance in a round come one after the other: a worker makes it
once for them, and holds few seeds at a time. The permutations follow from the recorded seed of the
schedule and from the run's key, the name of an episode from the key. So neither the names of
objects nor the order in which they are stored reveal an arm without that key, not even with the
instances and models at hand. The same seed and key always give the same sequence.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import isqrt
from typing import Any, overload

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Mode
from harness.storage import Codec, hex_of
from registry.canonical import canonical_bytes, digest_value
from registry.ledger.records import ModelPin, RunManifest, answering_pin, record_body
from registry.signing import derive_key

_TOGETHER = 8  # replicates of an instance in a round
_ROUNDS = 2  # of a Feistel network: pairs of them
_NAMES, _ORDER = "dosimeter/episode-names/1", "dosimeter/episode-order/1"  # keys, by purpose
_WORD = 4  # bytes
_DIGITS = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class WaveInstance:
    """An instance that a wave runs, without its arm."""

    spec: TaskSpec
    instance: str = field(repr=False)
    seed: Seed = field(repr=False)
    tranche: int = 0


INSTANCES_CODEC: Codec[tuple[WaveInstance, ...]] = Codec(
    "wave-instances", 1, tuple[WaveInstance, ...]
)


class Permutation:
    """A keyed permutation of 0 … size - 1: a Feistel network over the smallest rectangle of about
    equal sides that holds them, with cycle walking (Black and Rogaway 2002)."""

    __slots__ = ("_rounds", "_size", "_width")

    def __init__(self, seed: Seed, size: int) -> None:
        height = isqrt(max(size - 1, 0)) + 1
        width = -(-size // height)
        self._size, self._width = size, width
        self._rounds = [
            (_shifts(seed.child("row", n), width), _shifts(seed.child("column", n), height))
            for n in range(_ROUNDS)
        ]

    def __call__(self, place: int) -> int:
        """Return the image of a place. Raises IndexError if it is outside of the range."""
        if not 0 <= place < self._size:
            raise IndexError(f"{place} is outside of 0 … {self._size - 1}")
        width = self._width
        while True:
            row, column = divmod(place, width)
            for rows, columns in self._rounds:
                row = (row + rows[column]) % len(columns)
                column = (column + columns[row]) % width
            if (place := row * width + column) < self._size:
                return place


def _shifts(seed: Seed, count: int) -> Sequence[int]:
    """Return a round function as a table."""
    words = hashlib.shake_256(seed.value).digest(_WORD * count)
    return [int.from_bytes(words[at : at + _WORD]) for at in range(0, len(words), _WORD)]


@dataclass(frozen=True, slots=True)
class WavePlan:
    """What the cells of a wave follow from, as its manifest records it. ``replicates`` are the runs
    of each of the models on an instance, and ``tranches`` those that each runs; () is the panel, 0,
    for all of them. ``single_turn`` names the strata that are given in a single turn."""

    study: str
    wave: int
    models: tuple[ModelPin, ...]
    replicates: tuple[int, ...]
    schedule_seed: str
    tranches: tuple[tuple[int, ...], ...] = ()
    single_turn: tuple[str, ...] = ()

    @classmethod
    def of(cls, manifest: RunManifest) -> WavePlan:
        """Return what a manifest records of the cells."""
        return cls(**{each.name: getattr(manifest, each.name) for each in fields(cls)})


@dataclass(frozen=True)
class ModelSchedule:
    """The cells of one model of a wave, by their places in its order."""

    plan: WavePlan
    pin: ModelPin
    replicates: int
    instances: Sequence[WaveInstance]
    orders: Sequence[Permutation]  # of the instances, a round each
    key: bytes = field(repr=False)  # of the names of all episodes of the run

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.replicates * len(self.instances)

    def name(self, place: int) -> bytes:
        """Return the 32 bytes of an episode's name: the HMAC-SHA256 of what defines it."""
        number, replicate = self._locate(place)
        code = self._code.copy()
        code.update(b"%s/%d" % (self._labels[number], replicate))
        return code.digest()

    def cell(self, place: int) -> Cell:
        """Return a cell, without its key."""
        number, replicate = self._locate(place)
        instance = self.instances[number]
        mode = self._mode(instance)
        definition = {
            "study": self.plan.study,
            "wave": self.plan.wave,
            "instance": instance.instance,
            "model": self._body,
            "replicate": replicate,
            "mode": str(mode),
        }
        return Cell(
            episode=f"sha256:{self.name(place).hex()}",
            spec=instance.spec,
            instance=instance.instance,
            seed=instance.seed,
            model=self.pin.name,
            replicate=replicate,
            mode=mode,
            definition=digest_value(definition),
        )

    def _locate(self, place: int) -> tuple[int, int]:
        """Return the number of the instance at a place, and the replicate."""
        at, rest = divmod(place, _TOGETHER * len(self.instances))
        before = _TOGETHER * at
        position, replicate = divmod(rest, min(_TOGETHER, self.replicates - before))
        return self.orders[at](position), before + replicate

    def _mode(self, instance: WaveInstance) -> Mode:
        single = instance.spec.stratum in self.plan.single_turn
        return Mode.SINGLE_TURN if single else Mode.AGENTIC

    @cached_property
    def _labels(self) -> list[bytes]:
        return [f"{self._mode(each)}/{each.instance}".encode() for each in self.instances]

    @cached_property
    def _body(self) -> dict[str, Any]:
        return record_body(answering_pin(self.pin))

    @cached_property
    def _code(self) -> hmac.HMAC:
        shared = {"study": self.plan.study, "wave": self.plan.wave, "model": self._body}
        return hmac.new(self.key, canonical_bytes(shared), "sha256")


class Schedule(Sequence[Cell]):
    """The cells of a wave, by number: those of each model in a range of their own. A cell is
    computed when it is asked for; equal numbers always give equal cells."""

    def __init__(self, models: Iterable[ModelSchedule]) -> None:
        self._models, self._starts, self._size = list(models), list[int](), 0
        for model in self._models:
            self._starts.append(self._size)
            self._size += model.size

    @property
    def ranges(self) -> Mapping[str, range]:
        """The numbers of the cells of each model."""
        return {
            model.pin.name: range(start, start + model.size)
            for model, start in zip(self._models, self._starts, strict=True)
        }

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, number: int) -> Cell: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Cell, ...]: ...
    def __getitem__(self, number: int | slice) -> Cell | tuple[Cell, ...]:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(self._size)))
        model, place = self._locate(number)
        return model.cell(place)

    def find(self, name: str) -> int | None:
        """Return the number of the cell of this name, with or without its prefix; None if it is
        none of this wave."""
        digits = hex_of(name)
        return self._numbers.get(bytes.fromhex(digits)) if _DIGITS.fullmatch(digits) else None

    def marks(self, names: Iterable[str]) -> bytearray:
        """Return a byte for each cell, 1 if its name is among these."""
        marks = bytearray(self._size)
        for name in names:
            if (number := self.find(name)) is not None:
                marks[number] = 1
        return marks

    def unmarked(self, marks: bytes | bytearray) -> Iterator[Cell]:
        """Yield the cells that have no mark, by number."""
        return (self[number] for number in range(self._size) if not marks[number])

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The numbers of all cells by their names."""
        return {
            model.name(place): start + place
            for start, model in zip(self._starts, self._models, strict=True)
            for place in range(model.size)
        }

    def _locate(self, number: int) -> tuple[ModelSchedule, int]:
        if not 0 <= number < self._size:
            raise IndexError(f"the wave has {self._size} cells, and none of number {number}")
        # Of models without cells, which share a start, the last one counts.
        at = bisect_right(self._starts, number) - 1
        return self._models[at], number - self._starts[at]


def schedule_cells(
    plan: WavePlan, instances: Iterable[WaveInstance], run_identity: str
) -> Schedule:
    """Return the cells of a wave, in an order that follows from a recorded seed and the run's key,
    and with names that follow from the key. The order in which the instances are given does not
    matter."""
    ordered = sorted(instances, key=lambda each: each.instance)
    key, order = derive_key(run_identity, _NAMES), Seed.from_hex(plan.schedule_seed)
    secret = Seed(hmac.digest(derive_key(run_identity, _ORDER), order.value, "sha256"))
    tranches = plan.tranches or ((0,),) * len(plan.models)
    schedules = []
    for pin, runs, own_tranches in zip(plan.models, plan.replicates, tranches, strict=True):
        own = [each for each in ordered if each.tranche in own_tranches]
        seeds = secret.child("schedule", plan.wave, pin.name)
        rounds = range(-(-runs // _TOGETHER))
        orders = [Permutation(seeds.child("round", number), len(own)) for number in rounds]
        schedules.append(ModelSchedule(plan, pin, runs, own, orders, key=key))
    return Schedule(schedules)

"""The draw: random seeds for each stratum, a random half of them to each arm, sealed in the store
and committed to in the ledger (``seal_draw``).

Allocation, which anyone can recompute from its recorded seed: the indices of a stratum stand in
the order of ``SHA-256(tag ‖ seed ‖ stratum ‖ index)``, where each part stands after its length as
4 bytes, big-endian; the tag is ``dosimeter/allocation/1``, the stratum its name, the index in
decimal. The first S are public and the next S private: these are the panel, tranche 0. Of what
follows, the first s are public and the next s private in tranche 1, and so on for each reserve
tranche (spec/statistics.md, D1).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol

from registry.canonical import digest_bytes
from registry.errors import RegistryError
from registry.ledger import Ledger, SealedSet, Underpowered
from registry.result_row import Arm
from registry.sealing import DrawnInstance, commitments_of, commitments_root, seal_entries
from registry.stores import Store

Identify = Callable[[str, str, str, bytes], str]  # family, version, difficulty, seed → instance id

_REDRAWS = 100  # of one place in the draw, before its entropy is called broken


class Entropy(Protocol):
    """Source of the randomness of a draw."""

    def draw(self, size: int, *path: str | int) -> bytes:
        """Return ``size`` bytes, at most 32, for the place that the path names."""
        ...

    def describe(self) -> str:
        """Return the source's name for the record: "operating system", or "fixed"."""
        ...


class SystemEntropy:
    """The operating system's: new at each call, whatever the path."""

    def draw(self, size: int, *path: str | int) -> bytes:
        """Random bytes of the operating system."""
        return os.urandom(size)

    def describe(self) -> str:
        """Name the source."""
        return "operating system"


@dataclass(frozen=True, slots=True)
class FixedEntropy:
    """SHA-256 of the path below a root of 32 bytes: the same draw each time. For demonstrations
    and tests only: the root gives every seed."""

    root: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.root) != 32:
            raise RegistryError(f"a root of fixed entropy is 32 bytes, not {len(self.root)}")

    def draw(self, size: int, *path: str | int) -> bytes:
        """The first bytes of the digest of the path. Raises RegistryError for more than 32."""
        if not 0 < size <= 32:
            raise RegistryError(f"fixed entropy gives up to 32 bytes at a path, not {size}")
        parts = (str(part).encode() for part in path)
        return _hash(b"dosimeter/entropy/1", self.root, *parts)[:size]

    def describe(self) -> str:
        """Name the source."""
        return "fixed"


class Stratum(NamedTuple):
    """One task at one difficulty."""

    family: str
    version: str
    difficulty: str

    @property
    def name(self) -> str:
        """Family and difficulty, as ``family/difficulty``."""
        return f"{self.family}/{self.difficulty}"


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw before it is sealed. Held in memory only."""

    strata: tuple[str, ...]
    seeds_per_arm: int
    entries: tuple[DrawnInstance, ...] = field(repr=False)
    allocation_seed: str  # hex
    entropy: str
    reserve: tuple[int, ...] = ()  # seeds per arm of each reserve tranche


class Place(NamedTuple):
    """Arm and tranche that an entry of a draw was allotted to."""

    arm: Arm
    tranche: int


def draw(
    strata: Sequence[tuple[str, str, str]],
    seeds_per_arm: int,
    entropy: Entropy,
    identify: Identify,
    progress: Callable[[int], None] | None = None,
    reserve: Sequence[int] = (),
    excluded: Collection[str] = (),
) -> Draw:
    """Draw 2S instances a stratum, all different, and allocate S of them to each arm; and 2s more
    for each reserve tranche, of which ``reserve`` gives the s. None has an instance id or a seed,
    in hexadecimal, that is ``excluded``.

    A stratum is its family, version and difficulty. ``identify`` gives the instance id of a
    seed (so that this module knows no generator); ``progress`` receives the number drawn.
    Raises RegistryError.
    """
    ordered = [Stratum(*stratum) for stratum in strata]
    names = tuple(stratum.name for stratum in ordered)
    seed = entropy.draw(32, "allocation")
    places = allocate(names, seeds_per_arm, seed.hex(), reserve)
    size = 2 * (seeds_per_arm + sum(reserve))  # of a stratum
    taken = set(excluded)
    entries: list[DrawnInstance] = []
    for number, place in enumerate(places):
        stratum, index = ordered[number // size], number % size
        entries.append(_draw_one(stratum, index, place, entropy, identify, taken))
        if progress:
            progress(len(entries))
    return Draw(
        names, seeds_per_arm, tuple(entries), seed.hex(), entropy.describe(), tuple(reserve)
    )


def allocate(
    strata: Sequence[str], seeds_per_arm: int, allocation_seed: str, reserve: Sequence[int] = ()
) -> tuple[Place, ...]:
    """Arm and tranche of each entry in the order drawn, stratum by stratum: S public and S private
    in the panel of each, and as many of either as ``reserve`` says in each reserve tranche.
    ``allocation_seed`` is 64 hexadecimal digits. Raises RegistryError."""
    for count in (seeds_per_arm, *reserve):
        if count < 1:
            raise RegistryError(f"seeds per arm must be at least 1, not {count}")
    if not strata or len(set(strata)) != len(strata):
        raise RegistryError("a draw takes one stratum or more, each named once")
    try:
        seed = bytes.fromhex(allocation_seed)
    except ValueError:
        raise RegistryError("an allocation seed is 64 hexadecimal digits") from None
    counts = (seeds_per_arm, *reserve)
    return tuple(place for name in strata for place in _split(name, counts, seed))


def seal_draw(
    store: Store,
    ledger: Ledger,
    drawn: Draw,
    recipients: Sequence[str],
    time: str,
    underpowered: Underpowered | None = None,
) -> SealedSet:
    """Put the sealed draw into the store, then its record into the ledger. ``underpowered`` is why
    a plan that cannot answer is drawn all the same.

    Raises RegistryError if the ledger has a sealed set: there is one to a study. Killed between
    the two, it leaves a ciphertext that nothing names, and can be run again.
    """
    if ledger.find("sealed-set"):
        raise RegistryError("this study is drawn already: its ledger has a sealed-set record")
    ciphertext = seal_entries(drawn.entries, recipients)
    digest = digest_bytes(ciphertext)
    commitments = commitments_of(drawn.entries)
    record = SealedSet(
        strata=drawn.strata,
        seeds_per_arm=drawn.seeds_per_arm,
        count=len(commitments),
        commitments=commitments,
        root=commitments_root(commitments),
        ciphertext=digest,
        uri=sealed_key(digest),
        recipients=tuple(recipients),
        entropy=drawn.entropy,
        allocation_seed=drawn.allocation_seed,
        reserve=drawn.reserve,
        underpowered=underpowered,
    )
    store.put(record.uri, ciphertext)
    ledger.append(record, time, once=True)
    return record


def sealed_key(digest: str) -> str:
    """Return the store key of the sealed object of a digest."""
    return f"sealed/{digest.removeprefix('sha256:')}.age"


def _draw_one(
    stratum: Stratum,
    index: int,
    place: Place,
    entropy: Entropy,
    identify: Identify,
    taken: set[str],
) -> DrawnInstance:
    for attempt in range(_REDRAWS):
        path = (*stratum, index, attempt)
        seed = entropy.draw(32, "seed", *path)
        instance = identify(*stratum, seed)
        if taken.isdisjoint((instance, seed.hex())):
            taken.update((instance, seed.hex()))
            nonce = entropy.draw(32, "nonce", *path).hex()
            return DrawnInstance(
                instance, *stratum, seed.hex(), place.arm, nonce, tranche=place.tranche
            )
    raise RegistryError(
        f"{stratum.name}: {_REDRAWS} draws gave no new instance: the task has too few different "
        "ones for so many seeds, or entropy is broken"
    )


def _split(stratum: str, counts: Sequence[int], seed: bytes) -> list[Place]:
    """``counts`` are the seeds per arm of each tranche, the panel's first."""
    tag, name = b"dosimeter/allocation/1", stratum.encode()
    size = 2 * sum(counts)
    order = sorted(range(size), key=lambda index: _hash(tag, seed, name, str(index).encode()))
    blocks = (
        [Place(arm, tranche)] * count
        for tranche, count in enumerate(counts)
        for arm in (Arm.PUBLIC, Arm.PRIVATE)
    )
    placed = dict(zip(order, chain.from_iterable(blocks), strict=True))
    return [placed[index] for index in range(size)]


def _hash(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each after its length."""
    return hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p for p in parts)).digest()

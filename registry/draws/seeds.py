"""The draw: random seeds for each stratum, sealed in the store and announced in the ledger
(``announce_draw``), and then allotted to the arms by the announced value (``allot_draw``).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from registry.canonical import digest_bytes, join_parts
from registry.draws.allocation import allocation_seed, check_numbers, commit_secret, sealed_key
from registry.draws.beacon import check_ahead
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import Announcement, DrawTerms, SealedSet, SeedsPerArm, sizes_of
from registry.sealing import DrawnSeed, SealedSeeds, commitments_of, commitments_root, seal_seeds
from registry.stores.base import Store

Identify = Callable[[str, str, str, bytes], str]  # family, version, difficulty, seed → instance id

_REDRAWS = 100  # of one place in the draw, before its entropy is called broken


class Entropy(Protocol):
    """Source of the randomness of a draw."""

    name: ClassVar[str]  # for the record: "operating system", or "fixed"

    def draw(self, size: int, *path: str | int) -> bytes:
        """Return ``size`` bytes, at most 32, for the place that the path names."""


class SystemEntropy:
    """The operating system's: new at each call, whatever the path."""

    name: ClassVar[str] = "operating system"

    def draw(self, size: int, *path: str | int) -> bytes:
        """Random bytes of the operating system."""
        return os.urandom(size)


@dataclass(frozen=True, slots=True)
class FixedEntropy:
    """SHA-256 of the path below a root of 32 bytes: the same draw each time. For demonstrations
    and tests only: the root gives every seed."""

    name: ClassVar[str] = "fixed"
    root: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.root) != 32:
            raise RegistryError(f"a root of fixed entropy is 32 bytes, not {len(self.root)}")

    def draw(self, size: int, *path: str | int) -> bytes:
        """The first bytes of the digest of the path. Raises RegistryError for more than 32."""
        if not 0 < size <= 32:
            raise RegistryError(f"fixed entropy gives up to 32 bytes at a path, not {size}")
        parts = (str(part).encode() for part in path)
        return hashlib.sha256(join_parts(b"dosimeter/entropy/1", self.root, *parts)).digest()[:size]


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
    seeds_per_arm: SeedsPerArm
    seeds: tuple[DrawnSeed, ...] = field(repr=False)
    secret: str = field(repr=False)  # hex; allots the seeds if no beacon does
    entropy: str
    reserve: tuple[int, ...] = ()  # seeds per arm of each reserve tranche


def draw(
    strata: Sequence[tuple[str, str, str]],
    seeds_per_arm: SeedsPerArm,
    entropy: Entropy,
    identify: Identify,
    progress: Callable[[int], None] | None = None,
    reserve: Sequence[int] = (),
    excluded: Collection[str] = (),
    pools: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
) -> Draw:
    """Draw 2S instances a stratum, all different, for two arms; and 2s more for each reserve
    tranche, of which ``reserve`` gives the s. None has an instance id or a seed, in hexadecimal,
    that is ``excluded``. No arm is known yet. A stratum that has a pool takes items of it, each
    once, in an order drawn.

    A stratum is its family, version and difficulty. ``identify`` gives the instance id of a
    seed (so that this module knows no generator); ``progress`` receives the number drawn.
    Raises RegistryError.
    """
    ordered = [Stratum(*stratum) for stratum in strata]
    names = tuple(stratum.name for stratum in ordered)
    check_numbers(names, seeds_per_arm, reserve)
    taken = set(excluded)
    seeds: list[DrawnSeed] = []
    for stratum, size in zip(ordered, sizes_of(seeds_per_arm, names), strict=True):
        pool = _shuffled(pools[stratum.name], stratum, entropy) if stratum.name in pools else None
        for index in range(2 * (size + sum(reserve))):
            seeds.append(_draw_one(stratum, index, entropy, identify, taken, pool))
            if progress:
                progress(len(seeds))
    return Draw(
        strata=names,
        seeds_per_arm=seeds_per_arm,
        seeds=tuple(seeds),
        secret=entropy.draw(32, "allocation").hex(),
        entropy=entropy.name,
        reserve=tuple(reserve),
    )


def announce_draw(
    store: Store,
    ledger: Ledger,
    drawn: Draw,
    terms: DrawTerms,
    now: Callable[[], str],
    *,
    after: int = -1,
) -> Announcement:
    """Put the sealed seeds into the store, then their announcement into the ledger; return the one
    that the ledger has. ``after`` is the number of the announcement that it replaces, -1 for none.

    Killed between the two, it leaves a ciphertext that nothing names, and can be run again. Raises
    RegistryError for a beacon's round that is over by then.
    """
    beacon, secret = terms.beacon, "" if terms.beacon else drawn.secret
    ciphertext = seal_seeds(SealedSeeds(drawn.seeds, secret), terms.recipients)
    record = Announcement(
        **{field.name: getattr(terms, field.name) for field in fields(terms)},
        **_named(drawn, "strata", "seeds_per_arm", "reserve", "entropy"),
        root=commitments_root(commitments_of(drawn.seeds)),
        ciphertext=digest_bytes(ciphertext),
        commitment="" if beacon else commit_secret(terms.study, secret),
    )
    store.put(sealed_key(record.ciphertext), ciphertext)
    time = now()
    if beacon is not None:
        check_ahead(beacon, time)  # once more: drawing and sealing take their time
    # Of two that draw at once, the second goes on with the announcement of the first.
    entry, _ = ledger.append_unless(
        record, time, lambda e: e.sequence > after and e.kind in ("announcement", "preregistration")
    )
    if entry.kind != "announcement":
        raise RegistryError("the plan was registered in the meantime: nothing is drawn again")
    announced: Announcement = entry.record
    return announced


def allot_draw(announced: Announcement, sealed: SealedSeeds, value: str) -> SealedSet:
    """Return the record of an announced draw with its arms, by its value: the beacon's signature,
    or the secret. ``sealed`` is what the announcement names. Raises RegistryError for a value,
    BrokenPromise for seeds, that are not of the announcement."""
    commitments = commitments_of(sealed.seeds)
    if commitments_root(commitments) != announced.root:
        raise BrokenPromise(
            f"{sealed_key(announced.ciphertext)}: its seeds are not those that were announced, "
            f"root {announced.root}"
        )
    return SealedSet(
        **_named(announced, "strata", "seeds_per_arm", "root", "ciphertext", "recipients"),
        **_named(announced, "entropy", "reserve", "underpowered", "unproved", "units"),
        count=len(commitments),
        commitments=commitments,
        uri=sealed_key(announced.ciphertext),
        allocation_seed=allocation_seed(announced, value),
        value=value,
    )


def _named(record: object, *names: str) -> dict[str, Any]:
    """Return some fields of a record by name."""
    return {name: getattr(record, name) for name in names}


def record_draw(ledger: Ledger, record: SealedSet, time: str) -> SealedSet:
    """Record the arms of a draw. Return the sealed set that the ledger has. Raises
    RegistryError."""
    entry, _ = ledger.append_unless(
        record, time, lambda e: e.kind == "sealed-set" and e.body["root"] == record.root
    )
    allotted: SealedSet = entry.record
    return allotted


def _shuffled(pool: Sequence[bytes], stratum: Stratum, entropy: Entropy) -> list[bytes]:
    """The items of a pool by the digest of a secret and of themselves: in whatever order they are
    given, and by nobody's choice."""
    secret = entropy.draw(32, "pool", *stratum)
    return sorted(pool, key=lambda item: hmac.digest(secret, item, "sha256"))


def _draw_one(
    stratum: Stratum,
    index: int,
    entropy: Entropy,
    identify: Identify,
    taken: set[str],
    pool: list[bytes] | None,
) -> DrawnSeed:
    for attempt in range(_REDRAWS if pool is None else len(pool)):
        path = (*stratum, index, attempt)
        seed = entropy.draw(32, "seed", *path) + (pool.pop() if pool else b"")
        instance, text = identify(*stratum, seed), seed.hex()
        if taken.isdisjoint((instance, text)):
            taken.update((instance, text))
            nonce = entropy.draw(32, "nonce", *path).hex()
            return DrawnSeed(instance, *stratum, text, nonce)
    if pool is not None:
        raise RegistryError(f"{stratum.name}: its pool has no more items after {index}")
    raise RegistryError(
        f"{stratum.name}: {_REDRAWS} draws gave no new instance: the task has too few different "
        "ones for so many seeds, or entropy is broken"
    )

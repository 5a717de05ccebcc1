"""Which seed goes to which arm: by a value that is announced, and named later.

**The order.** Seeds and nonces are drawn from the operating system's entropy and sealed. Then the
ledger announces the draw: the Merkle root over their commitments, the numbers of seeds of each
tranche, and the allocating value by a name that fixes it: a later round of a public beacon, or the
commitment to a sealed secret of 32 bytes. Then that value comes, and the sealed set records it:

    seed = SHA-256(tag ‖ study ‖ root ‖ value)

where each part stands after its length as 4 bytes, big-endian; the tag is
``dosimeter/allocation-seed/1``, the root has 32 bytes, and the value is the beacon's (SHA-256 of
its signature) or the secret. The commitment to a secret is ``HMAC-SHA256(secret, tag ‖ study)``,
with the tag ``dosimeter/allocation-secret/1``.

**Why nobody can choose the arms.** With a beacon, root and numbers stand in the announcement before
anybody knows the value: seeds cannot be chosen for an allocation, nor an allocation for seeds.
Whoever trusts no clock of the owner's needs a time-stamp of the announcement before the round.
With a secret, the owner could have tried many before the announcement, and is bound from then on;
it convinces those who trust them up to there. A draw that is announced and dropped stays recorded.

**The allocation**, which anyone can recompute from the seed: the indices of a stratum stand in the
order of ``SHA-256(tag ‖ seed ‖ stratum ‖ index)``, with the tag ``dosimeter/allocation/1``, the
stratum's name, and the index in decimal. The first S are public and the next S private: these are
the panel, tranche 0. Of what follows, the first s are public and the next s private in tranche 1,
and so on for each reserve tranche.

**Units.** Some strata are of units that are published or stay sealed as a whole. The units of an
area stand in the order of ``SHA-256(tag ‖ seed ‖ level ‖ area ‖ name)``, with the tag
``dosimeter/units/1``; the first half of them, rounded down, stay sealed: all of their seeds are
private. All seeds of a unit that has a tranche are in that one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from registry.canonical import join_parts
from registry.draws.beacon import beacon_value, is_signed_round, round_time
from registry.errors import RegistryError
from registry.ledger.chain import Entry
from registry.ledger.draw_records import Announcement, SealedSet, SeedsPerArm, Unit, sizes_of
from registry.result_row import Arm
from registry.sealing import DrawnInstance, DrawnSeed

_PROMISED = (
    *("strata", "seeds_per_arm", "reserve", "root", "ciphertext", "recipients", "entropy"),
    "units",
)


class Place(NamedTuple):
    """Arm and tranche that a seed of a draw is allotted to."""

    arm: Arm
    tranche: int


def allocate(
    strata: Sequence[str],
    seeds_per_arm: SeedsPerArm,
    allocation_seed: str,
    reserve: Sequence[int] = (),
    units: Sequence[Unit] = (),
) -> tuple[Place, ...]:
    """Arm and tranche of each seed in the order drawn, stratum by stratum: S public and S private
    in the panel of each, and as many of either as ``reserve`` says in each reserve tranche; all
    private where the stratum's unit stays sealed, and all in the tranche of a unit that has one.
    ``allocation_seed`` is 64 hexadecimal digits. Raises RegistryError."""
    check_numbers(strata, seeds_per_arm, reserve)
    if not _is_hex32(allocation_seed):
        raise RegistryError("an allocation seed is 64 hexadecimal digits")
    hidden = {name for unit in sealed_units(units, allocation_seed) for name in unit.strata}
    only = {s: unit.tranche for unit in units for s in unit.strata if unit.tranche is not None}
    return tuple(
        Place(Arm.PRIVATE if name in hidden else place.arm, only.get(name, place.tranche))
        for name, size in zip(strata, sizes_of(seeds_per_arm, strata), strict=True)
        for place in _split(name, (size, *reserve), allocation_seed)
    )


def sealed_strata(sealed: SealedSet) -> frozenset[str]:
    """Return the strata of a draw whose units stay sealed."""
    hidden = sealed_units(sealed.units, sealed.allocation_seed)
    return frozenset(name for unit in hidden for name in unit.strata)


def places_of(sealed: SealedSet) -> tuple[Place, ...]:
    """Return the places of the seeds of a draw, in the order drawn. Raises RegistryError."""
    sizes, seed = sealed.seeds_per_arm, sealed.allocation_seed
    return allocate(sealed.strata, sizes, seed, sealed.reserve, sealed.units)


def sealed_units(units: Sequence[Unit], allocation_seed: str) -> tuple[Unit, ...]:
    """Return the units that stay sealed: half of those of each area, rounded down."""
    tag, seed = b"dosimeter/units/1", bytes.fromhex(allocation_seed)

    def place(unit: Unit) -> bytes:
        names = (unit.level.encode(), unit.area.encode(), unit.name.encode())
        return hashlib.sha256(join_parts(tag, seed, *names)).digest()

    areas: dict[tuple[str, str], list[Unit]] = {}
    for unit in sorted(units, key=place):
        areas.setdefault((unit.level, unit.area), []).append(unit)
    return tuple(unit for area in areas.values() for unit in area[: len(area) // 2])


def check_numbers(
    strata: Sequence[str], seeds_per_arm: SeedsPerArm, reserve: Sequence[int]
) -> None:
    """Raise RegistryError for a draw of nothing, or of a stratum twice."""
    sizes = sizes_of(seeds_per_arm, strata)
    for count in (*sizes, *reserve):
        if count < 1:
            raise RegistryError(f"seeds per arm must be at least 1, not {count}")
    if not strata or not len(set(strata)) == len(strata) == len(sizes):
        raise RegistryError("a draw takes one stratum or more, each named once, with its size")


def place_seeds(seeds: Sequence[DrawnSeed], sealed: SealedSet) -> tuple[DrawnInstance, ...]:
    """Return the seeds of a draw, in the order drawn, each with its place. Raises RegistryError."""
    places = places_of(sealed)
    if len(places) != len(seeds):
        raise RegistryError(f"{len(places)} seeds expected in the draw, {len(seeds)} found")
    return tuple(
        DrawnInstance(**asdict(seed), arm=place.arm, tranche=place.tranche)
        for seed, place in zip(seeds, places, strict=True)
    )


def sealed_key(digest: str) -> str:
    """Return the store key of the sealed object of a digest."""
    return f"sealed/{digest.removeprefix('sha256:')}.age"


def commit_secret(study: str, secret: str) -> str:
    """Return the commitment to the secret, of 64 hexadecimal digits, that allots a study's
    seeds."""
    tag = b"dosimeter/allocation-secret/1"
    return hmac.digest(bytes.fromhex(secret), join_parts(tag, study.encode()), "sha256").hex()


def allocation_seed(announced: Announcement, value: str) -> str:
    """Return the seed of an announced draw's allocation, by the hexadecimal digits of the beacon's
    signature or of the secret. Raises RegistryError unless they are of what was announced."""
    if announced.beacon is not None:
        if not is_signed_round(announced.beacon, value):
            raise RegistryError(f"its value is not signed by drand for round {_round(announced)}")
        content = beacon_value(value)
    else:
        if not _is_hex32(value) or commit_secret(announced.study, value) != announced.commitment:
            raise RegistryError("its value is not the secret that the announcement committed to")
        content = bytes.fromhex(value)
    if not _is_hex32(announced.root):
        raise RegistryError("its root is not 64 hexadecimal digits")
    tag, root = b"dosimeter/allocation-seed/1", bytes.fromhex(announced.root)
    return hashlib.sha256(join_parts(tag, announced.study.encode(), root, content)).hexdigest()


def pending_draw(entries: Iterable[Entry]) -> Announcement | None:
    """Return the newest announcement of a ledger if no seeds have been allotted by it."""
    drawn = [entry for entry in entries if entry.kind in ("announcement", "sealed-set")]
    record: Announcement | None = None
    if drawn and drawn[-1].kind == "announcement":
        record = drawn[-1].record
    return record


def check_draws(records: Iterable[tuple[Entry, Any]]) -> Iterator[tuple[Entry, str]]:
    """Yield what is wrong with the order of a ledger's draws, and with the allocation of each."""
    first = pending = registered = drawn = None
    for entry, record in records:
        match entry.kind:
            case "announcement":
                first, pending = first or record, record
                yield from ((entry, text) for text in _faults(entry, record, first, registered))
            case "sealed-set":
                if drawn is not None and pending is None:
                    yield entry, "a second draw without a record that announces it, and its reason"
                elif pending is None:
                    yield entry, "an unannounced draw: no announcement stands before it"
                else:
                    yield from ((entry, text) for text in _unlike(entry, record, pending))
                drawn, pending = record, None
            case "preregistration":
                registered = record
                if pending is not None:
                    yield entry, "registered while an announced draw had no allocation yet"
                if drawn is not None and record.sealed_root != drawn.root:
                    yield entry, f"registered for another draw than the newest, root {drawn.root}"


def _faults(
    entry: Entry, record: Announcement, first: Announcement, registered: object
) -> Iterator[str]:
    """Yield what is wrong with an announcement."""
    if registered is not None:
        yield "a draw was announced after the plan was registered"
    if record is not first and not record.again.strip():
        yield "a second draw was announced without a reason"
    if record.parties != first.parties:
        yield "announced with another operator than the first"
    if record.study != first.study:
        yield f"announced for the study {record.study!r}, and the first for {first.study!r}"
    if (record.beacon is None) == (record.commitment == ""):
        yield "a draw is announced with either a beacon or the commitment to a secret"
    if record.beacon is not None:
        try:
            due = round_time(record.beacon)
        except RegistryError as error:
            yield str(error)
            return
        if datetime.fromisoformat(entry.time) >= due:
            yield f"announced at {entry.time}, when drand round {_round(record)} was public already"


def _unlike(entry: Entry, record: SealedSet, announced: Announcement) -> Iterator[str]:
    """Yield where a sealed set is not the one that was announced."""
    for name in _PROMISED:
        if (was := getattr(announced, name)) != (is_now := getattr(record, name)):
            yield f"{name} {was} announced, {is_now} found"
    try:
        if (seed := allocation_seed(announced, record.value)) != record.allocation_seed:
            yield f"allocation seed {seed} follows from the announced value, not the recorded one"
        beacon = announced.beacon
        if beacon is not None and datetime.fromisoformat(entry.time) < round_time(beacon):
            yield f"allotted at {entry.time}, before drand round {beacon.round} was public"
    except RegistryError as error:
        yield str(error)


def _round(announced: Announcement) -> int:
    return announced.beacon.round if announced.beacon else 0


def _is_hex32(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _split(stratum: str, counts: Sequence[int], allocation_seed: str) -> list[Place]:
    """``counts`` are the seeds per arm of each tranche, the panel's first."""
    tag, name, seed = b"dosimeter/allocation/1", stratum.encode(), bytes.fromhex(allocation_seed)
    size = 2 * sum(counts)
    order = sorted(
        range(size),
        key=lambda index: hashlib.sha256(join_parts(tag, seed, name, str(index).encode())).digest(),
    )
    blocks = (
        [Place(arm, tranche)] * count
        for tranche, count in enumerate(counts)
        for arm in (Arm.PUBLIC, Arm.PRIVATE)
    )
    placed = dict(zip(order, chain.from_iterable(blocks), strict=True))
    return [placed[index] for index in range(size)]

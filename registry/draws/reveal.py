"""The reveal: seeds and nonces of a draw, of both arms, made public when a study is over; or the
files of a unit alone, of which nothing follows for any seed or for another unit.

Its object is canonical JSON, one for the same seeds, so that a reveal that was killed goes on with
the same (docs/formats.md). The ledger's record comes first: seeds are never public without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from registry.canonical import canonical_bytes, digest_bytes, parse_canonical
from registry.draws.allocation import places_of
from registry.errors import BrokenPromise, MissingKey, RegistryError
from registry.ledger.chain import Entry, Ledger
from registry.ledger.draw_records import Revealed, SealedSet, Unit, sizes_of
from registry.ledger.records import read_record
from registry.sealing import DrawnInstance, commitments_of, unit_digest
from registry.stores.base import Store

_FORMAT = "dosimeter/reveal/1"


@dataclass(frozen=True, slots=True)
class RevealedUnit:
    """The files of a unit, each the name, text and text of values; and the key of their digest."""

    name: str
    key: str  # 64 hexadecimal digits
    files: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class RevealedSeeds:
    """What a reveal's object holds."""

    study: str
    root: str  # of the draw
    tranches: tuple[int, ...]
    leaves: tuple[int, ...]  # place of each seed in the order drawn
    seeds: tuple[DrawnInstance, ...] = field(repr=False)
    units: tuple[RevealedUnit, ...] = ()  # with files: of all tranches, or of a unit alone
    format: str = _FORMAT


def reveal_bytes(
    study: str,
    sealed: SealedSet,
    entries: Sequence[DrawnInstance],
    tranches: Collection[int],
    units: Sequence[RevealedUnit] = (),
) -> bytes:
    """Return the object that reveals some tranches of a draw, whose ``entries`` are all of it, in
    the order drawn, with the files of some units."""
    chosen = [(leaf, entry) for leaf, entry in enumerate(entries) if entry.tranche in tranches]
    revealed = RevealedSeeds(
        study=study,
        root=sealed.root,
        tranches=tuple(sorted(tranches)),
        leaves=tuple(leaf for leaf, _ in chosen),
        seeds=tuple(entry for _, entry in chosen),
        units=tuple(units),
    )
    return canonical_bytes(asdict(revealed))


def is_whole(sealed: SealedSet, tranches: Collection[int]) -> bool:
    """Report whether these are all tranches of a draw."""
    return len(tranches) == len(sealed.reserve) + 1


def units_revealed(entries: Iterable[Entry], sealed: SealedSet) -> Iterator[Unit]:
    """Yield the units of a draw whose files are public by some records of a ledger."""
    for record in (entry.record for entry in entries if entry.kind == "revealed"):
        whole = is_whole(sealed, record.tranches)
        yield from (unit for unit in sealed.units if whole or unit.name in record.units)


def read_reveal(data: bytes, place: str) -> RevealedSeeds:
    """Return what a reveal's object holds. Raises BrokenPromise for one of another form."""
    value = parse_canonical(data, place)
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise BrokenPromise(f"{place}: not a reveal of the form {_FORMAT}")
    revealed = read_record(RevealedSeeds, value, place)
    if len(revealed.leaves) != len(revealed.seeds):
        raise BrokenPromise(f"{place}: it has not one leaf for each seed")
    return revealed


def reveal_record(data: bytes, reason: str = "") -> Revealed:
    """Return the ledger's record of a reveal's object."""
    revealed = read_reveal(data, "the reveal")
    digest = digest_bytes(data)
    uri = f"revealed/{digest.removeprefix('sha256:')}.json"
    return Revealed(
        tranches=revealed.tranches,
        root=revealed.root,
        count=len(revealed.seeds),
        content=digest,
        uri=uri,
        reason=reason,
        units=_alone(revealed),
    )


def _alone(revealed: RevealedSeeds) -> tuple[str, ...]:
    """Return the names of the units of a reveal without seeds."""
    return () if revealed.tranches else tuple(unit.name for unit in revealed.units)


def write_reveal(store: Store, ledger: Ledger, data: bytes, reason: str, time: str) -> Entry:
    """Record a reveal in the ledger, then put its object into the store; both once for the same
    seeds. Return the ledger's record. Raises RegistryError."""
    record = reveal_record(data, reason)
    entry, _ = ledger.append_unless(
        record, time, lambda e: e.kind == "revealed" and e.body["content"] == record.content
    )
    store.put(record.uri, data)
    return entry


def check_reveal(revealed: RevealedSeeds, sealed: SealedSet) -> Iterator[str]:
    """Yield what is wrong with a reveal: seeds that open no commitment of the draw, are in another
    place than the allocation gives, or are missing; files that were not announced."""
    if revealed.root != sealed.root:
        yield f"of the draw with root {revealed.root}, and drawn is {sealed.root}"
        return
    places = places_of(sealed)
    owed = [leaf for leaf, place in enumerate(places) if place.tranche in revealed.tranches]
    if [*revealed.leaves] != owed:
        tranches = ", ".join(map(str, revealed.tranches))
        yield f"{len(owed)} seeds of tranches {tranches} expected, others found"
        return
    digests = {unit.name: unit.digest for unit in sealed.units if unit.digest}
    shown = {unit.name: unit_digest(unit.key, unit.files) for unit in revealed.units}
    for name in digests | shown if is_whole(sealed, revealed.tranches) else shown:
        if shown.get(name) != digests.get(name):
            yield f"the files of unit {name} are missing, or not those that were announced"
    try:
        opened = commitments_of(revealed.seeds)
    except (RegistryError, ValueError):
        yield "a seed or nonce in it is not 64 hexadecimal digits"
        return
    sizes = zip(sealed.strata, sizes_of(sealed.seeds_per_arm, sealed.strata), strict=True)
    strata = [name for name, size in sizes for _ in range(2 * (size + sum(sealed.reserve)))]
    for leaf, seed, commitment in zip(revealed.leaves, revealed.seeds, opened, strict=True):
        if commitment != sealed.commitments[leaf]:
            yield f"seed {leaf} is not what was committed to"
        if (seed.arm, seed.tranche) != places[leaf]:
            yield f"seed {leaf} is in another arm or tranche than the allocation gives"
        if seed.stratum != strata[leaf]:
            yield f"seed {leaf} is of another stratum than was drawn there"


def check_reveals(
    store: Store, records: Iterable[tuple[Entry, Any]]
) -> Iterator[tuple[Entry, str]]:
    """Yield what is wrong with the reveals of a ledger."""
    drawn: SealedSet | None = None
    for entry, record in records:
        if entry.kind == "sealed-set":
            drawn = record
        elif entry.kind == "revealed":
            try:
                problems = [*_broken(store, record, drawn)]
            except (MissingKey, BrokenPromise) as error:
                problems = [str(error)]
            yield from ((entry, problem) for problem in problems)


def _broken(store: Store, record: Revealed, drawn: SealedSet | None) -> Iterator[str]:
    data = store.get(record.uri)
    if (digest := digest_bytes(data)) != record.content:
        yield f"{record.uri} was altered: digest {record.content} expected, {digest} found"
        return
    revealed = read_reveal(data, record.uri)
    named = (record.tranches, record.root, record.count, record.units)
    if named != (revealed.tranches, revealed.root, len(revealed.seeds), _alone(revealed)):
        yield f"{record.uri} holds other tranches, units or another draw than its record names"
    if drawn is None:
        yield "of no draw: no sealed set stands before it"
        return
    yield from check_reveal(revealed, drawn)

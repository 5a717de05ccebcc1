"""The ledger: an append-only chain of signed, canonical JSON records, one object each.

Record ``n`` is ``ledger/<n, 8 digits>.json``: sequence, the digest of the record before it, kind,
body, time, the signer's public key, and its signature over the purpose ``dosimeter/ledger/1`` and
the canonical bytes of all the others. An edit, a gap or a swap breaks the chain at that place.
Dropping records from the end leaves a shorter chain that is whole: only a head noted elsewhere
shows it.

On a remote store ``ledger.jsonl`` has a copy of all records, one a line, so that a process reads
one object in place of each. It is used only if its chain holds and ends with the record that the
store has under that number; `verify` reads the records themselves.

The study's key is the one that signed the first record, which a reader compares with a key that
they know from elsewhere. If the first record names an operator, that key may sign the records of
running waves (OPERATOR_KINDS), and no others.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import count
from typing import Any

from registry.canonical import Digest, canonical_bytes, digest_bytes, parse_canonical
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger.draw_records import Announcement
from registry.ledger.records import KINDS, OPERATOR_KINDS, read_record, record_body, record_kind
from registry.signing import Signer, is_signed
from registry.stores.base import Store
from registry.stores.parallel import is_remote, parallel_map

LEDGER = "ledger/"
COPY = "ledger.jsonl"
GENESIS = Digest("sha256:" + "0" * 64)  # named by the first record as its previous
_PURPOSE = "dosimeter/ledger/1"
_FIELDS = {"sequence", "previous", "kind", "body", "time", "signer", "signature"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it stands in the chain. ``digest`` is of its bytes."""

    sequence: int
    previous: Digest
    kind: str
    body: dict[str, Any]
    time: str  # UTC, ISO 8601
    signer: str  # its public key, 64 hexadecimal digits
    signature: str = ""  # 128
    digest: Digest = GENESIS

    @property
    def place(self) -> str:
        """The name of the record in messages."""
        return f"ledger record {self.sequence}"

    @property
    def record(self) -> Any:
        """The body as the record of its kind. Raises BrokenPromise where it has another form."""
        if self.kind not in KINDS:
            raise BrokenPromise(f"{self.place}: unknown kind {self.kind!r}")
        return read_record(KINDS[self.kind], self.body, self.place)


class Ledger:
    """The chain in a store. It is read and verified once; a later question reads the records after
    those, by their numbers. Appending is put-if-absent on the next number, so that of racing
    writers each gets a number of its own."""

    def __init__(self, store: Store, signer: Callable[[], Signer] | None = None) -> None:
        """``signer`` returns the key that signs what is appended; without one nothing can be."""
        self.store = store
        self._signer = signer
        self._verified: tuple[Entry, ...] = ()
        self._held: tuple[Entry, ...] | None = None  # what questions are answered by
        self._grows = True

    def held(self, grows: bool = True) -> Ledger:
        """Return a ledger that answers without requests: by the records that are there now and, if
        it ``grows``, those appended through it. Raises BrokenPromise."""
        ledger = Ledger(self.store, self._signer)
        ledger._held = ledger._verified = self._read()
        ledger._grows = grows
        return ledger

    def append(self, record: Any, time: str) -> Entry:
        """Add a record, of one of ``records.KINDS``. Raises RegistryError for what is no record or
        may not be signed by this key, BrokenPromise where the chain does not hold."""
        return self.append_unless(record, time, lambda entry: False)[0]

    def append_once(self, record: Any, time: str) -> tuple[Entry, bool]:
        """Add a record unless the chain has an equal one. Returns and raises as
        ``append_unless``."""
        kind = record_kind(record)
        return self.append_unless(record, time, lambda e: e.kind == kind and e.record == record)

    def append_unless(
        self, record: Any, time: str, there: Callable[[Entry], bool]
    ) -> tuple[Entry, bool]:
        """Add a record unless the chain has one that ``there`` picks: the newest such, or the
        added one, and whether it was added. Of racing writers with the same question one adds. A
        record is not dated before the last one, even if the clock is behind. Raises as
        ``append``."""
        kind = record_kind(record)
        if not _TIME.fullmatch(time):
            raise RegistryError(f"{time!r} is not a time: write it as 2026-01-31T12:00:00Z")
        signer, entries = None, self._verified or self._read()
        while True:
            if matches := [entry for entry in entries if there(entry)]:
                return matches[-1], False
            if self._signer is None:
                raise RegistryError("the ledger was opened without a key, and takes no record")
            signer = signer or self._signer()
            body, previous = record_body(record), head_digest(entries)
            stamp = max([entry.time for entry in entries[-1:]] + [time], key=_as_time)
            unsigned = Entry(
                sequence=len(entries),
                previous=previous,
                kind=kind,
                body=body,
                time=stamp,
                signer=signer.public,
            )
            if problem := _foreign((*entries, unsigned)[:1], unsigned):
                raise RegistryError(f"the ledger takes no {kind} record from this key: {problem}")
            entry, data = _seal_entry(unsigned, signer)
            if self.store.put(record_key(entry.sequence), data):
                self._verified = (*entries, entry)
                if self._held is not None and self._grows:
                    self._held = self._verified
                self._copy()
                return entry, True
            entries = self._read()  # another writer was first

    def entries(self) -> tuple[Entry, ...]:
        """All records, first first. Raises BrokenPromise that names the first record that does not
        hold, with the digest expected and the digest found."""
        return self._read() if self._held is None else self._held

    def first(self) -> tuple[Entry, ...]:
        """The first record, which names the signers of all; none while there is none."""
        return (self._verified or self.entries())[:1]

    def _read(self) -> tuple[Entry, ...]:
        entries = list(self._verified or self._read_copy())
        listed = () if entries else _read_listed(self.store, entries)
        if problems := [*listed, *_read_newer(self.store, entries)]:
            raise BrokenPromise(": ".join(problems[0]))
        self._verified = tuple(entries)
        return self._verified

    def _copy(self) -> None:
        if is_remote(self.store):
            lines = [entry_bytes(entry) + b"\n" for entry in self._verified]
            with contextlib.suppress(StoreError):  # the next one is as good
                self.store.replace(COPY, b"".join(lines))

    def _read_copy(self) -> list[Entry]:
        """The records of the copy; none if it cannot be relied on."""
        entries: list[Entry] = []
        with contextlib.suppress(MissingKey):
            lines = self.store.get(COPY).splitlines() if is_remote(self.store) else []
            objects = zip(map(record_key, count()), lines, strict=False)
            if not [*_extend(entries, objects)] and entries:
                return entries if self.store.get(record_key(len(lines) - 1)) == lines[-1] else []
        return []

    def find(self, kind: str) -> tuple[Entry, ...]:
        """The records of a kind, first first."""
        if kind not in KINDS:
            raise RegistryError(f"unknown kind {kind!r}: one of {', '.join(KINDS)}")
        return tuple(entry for entry in self.entries() if entry.kind == kind)

    def last(self, kind: str) -> Entry | None:
        """The newest record of a kind, None if there is none."""
        entries = self.find(kind)
        return entries[-1] if entries else None


def _as_time(time: str) -> datetime:
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        raise BrokenPromise(f"the ledger's last record has no time: {time[:40]!r}") from None


def head_digest(entries: Sequence[Entry]) -> Digest:
    """The digest of the newest record; GENESIS while there is none. If it is noted elsewhere, it
    shows later whether a record was dropped."""
    return entries[-1].digest if entries else GENESIS


def record_key(sequence: int) -> str:
    """Return the name of a record's object in the store."""
    return f"{LEDGER}{sequence:08d}.json"


def inspect_chain(
    store: Store, expected_head: str | None = None
) -> tuple[tuple[Entry, ...], tuple[tuple[str, str], ...]]:
    """The records that can be read, and each (place, problem) found. Raises StoreError."""
    entries: list[Entry] = []
    problems = [*_read_listed(store, entries)]
    if expected_head not in (None, GENESIS, *(entry.digest for entry in entries)):
        ends = f"which ends with {head_digest(entries)}: cut or replaced"
        problems.append((LEDGER, f"head {expected_head} expected in the chain, {ends}"))
    return tuple(entries), tuple(problems)


def _read_listed(store: Store, entries: list[Entry]) -> Iterator[tuple[str, str]]:
    """Add all records to none, and yield what is wrong with them."""
    keys = [*store.list(LEDGER)]
    return _extend(entries, zip(keys, parallel_map(store, store.get, keys), strict=True))


def _read_newer(store: Store, entries: list[Entry]) -> Iterator[tuple[str, str]]:
    """Likewise the records after some, by their numbers: a store may list late what it has."""
    with contextlib.suppress(MissingKey):
        keys = map(record_key, count(len(entries)))
        yield from _extend(entries, ((key, store.get(key)) for key in keys))


def _extend(
    entries: list[Entry], objects: Iterable[tuple[str, bytes]]
) -> Iterator[tuple[str, str]]:
    """Add the records that can be read, by key and bytes, and yield what is wrong with them."""
    for key, data in objects:
        try:
            entry, unsigned = _read_signed(data, key)
        except BrokenPromise as error:
            yield key, str(error).removeprefix(f"{key}: ")
            continue
        yield from _breaks(entries, entry, key)
        entries.append(entry)
        if problem := _foreign(entries[:1], entry) or unsigned:
            yield key, problem


def _breaks(entries: list[Entry], entry: Entry, key: str) -> Iterator[tuple[str, str]]:
    """Report what is wrong between the records so far and the next one."""
    if key != record_key(entry.sequence):
        yield key, f"holds record {entry.sequence}: it was moved here"
        return
    expected = entries[-1].sequence + 1 if entries else 0
    if entry.sequence != expected:
        yield record_key(expected), "missing, or unreadable"
        return
    head = head_digest(entries)
    if entry.previous != head:
        place = record_key(max(expected - 1, 0))
        yield place, f"was altered: digest {entry.previous} expected by {key}, {head} found"


def entry_bytes(entry: Entry) -> bytes:
    """Return the bytes of a record as the store has them: its canonical form."""
    return canonical_bytes({k: v for k, v in asdict(entry).items() if k != "digest"})


def signers_of(first: Sequence[Entry]) -> dict[str, Collection[str]]:
    """The public keys that may sign a ledger with this first record, with the kinds that each may
    sign. Raises BrokenPromise for an announcement of another form."""
    if not first:
        return {}
    signers: dict[str, Collection[str]] = {first[0].signer: KINDS}
    announced = first[0].record if first[0].kind == "announcement" else None
    if isinstance(announced, Announcement) and announced.operator_signer:
        signers.setdefault(announced.operator_signer, OPERATOR_KINDS)
    return signers


def _foreign(first: Sequence[Entry], entry: Entry) -> str:
    """Say why the signer of a record is none who may sign it; "" if it is one."""
    try:
        signers = signers_of(first)
    except BrokenPromise as error:
        return str(error)
    if entry.kind in signers.get(entry.signer, ()):
        return ""
    if entry.signer in signers:
        return f"the operator's key does not sign records of the kind {entry.kind!r}"
    return f"signed by {entry.signer[:16]}…, which is not the study's key {first[0].signer[:16]}…"


@lru_cache(maxsize=1024)  # a process opens a ledger several times
def _read_signed(data: bytes, place: str) -> tuple[Entry, str]:
    """A record, and why its signature does not hold; "" if it does."""
    entry = _read_entry(data, place)
    if is_signed(entry.signer, entry.signature, _PURPOSE, _signed_bytes(entry)):
        return entry, ""
    other = f"its signature is not by {entry.signer[:16]}…, the signer that it names"
    return entry, f"was altered: {other}"


def _signed_bytes(entry: Entry) -> bytes:
    body = asdict(entry)
    return canonical_bytes({k: body[k] for k in sorted(_FIELDS - {"signature"})})


def _seal_entry(entry: Entry, signer: Signer) -> tuple[Entry, bytes]:
    """The entry with its signature and digest, as it will be read; and its bytes."""
    signed = replace(entry, signature=signer.sign(_PURPOSE, _signed_bytes(entry)))
    data = entry_bytes(signed)
    return _read_entry(data, "a new record"), data


def _read_entry(data: bytes, place: str) -> Entry:
    value = parse_canonical(data, place)
    entry = read_record(Entry, value, place)
    if set(value) != _FIELDS:
        raise BrokenPromise(f"{place}: not an Entry: it has other fields")
    return replace(entry, digest=digest_bytes(data))

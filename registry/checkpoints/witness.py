"""A witness of ledgers: another person, who keeps what they saw and signs that a ledger grew.

A state file holds the witness's name and private key, and of each ledger the last checkpoint that
they signed with the hash of each record. It is written before a cosignature leaves: a witness
that is killed in between signs the same checkpoint again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from registry.canonical import canonical_bytes, parse_canonical
from registry.checkpoints.check import check_checkpoints, find_rewritten, spell_records
from registry.checkpoints.checkpoint import (
    SignedCheckpoint,
    iso_time,
    leaf_hashes,
    read_checkpoint,
    root_of,
    witnesses_of,
)
from registry.checkpoints.note import (
    COSIGNATURE,
    Note,
    NoteKey,
    check_name,
    cosign_note,
    read_note,
)
from registry.errors import BrokenPromise, RegistryError
from registry.files import write_whole
from registry.ledger import Announcement, Entry, inspect_chain, read_record, record_key
from registry.signing import Signer
from registry.stores import Store


@dataclass(frozen=True, slots=True)
class SeenLedger:
    """The last checkpoint of a ledger that a witness signed: its note's text, and the leaf hash of
    each record in hex."""

    study: str  # its name, "" if the ledger has none
    text: str
    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WitnessState:
    """The contents of a state file. Its repr shows no secret."""

    name: str
    secret: str = field(repr=False)  # 64 hexadecimal digits
    ledgers: Mapping[str, SeenLedger] = field(default_factory=dict)  # by the study's public key

    @property
    def signer(self) -> Signer:
        """The witness's private key."""
        return Signer(bytes.fromhex(self.secret))

    @property
    def key(self) -> NoteKey:
        """The public key that a study names."""
        return NoteKey(self.name, COSIGNATURE, bytes.fromhex(self.signer.public))


@dataclass(frozen=True, slots=True)
class Cosigned:
    """A checkpoint with the study's signature and a new cosignature, and what the witness knows
    after it. ``before`` is the number of records when they last signed; ``named`` is whether the
    study names this witness."""

    state: WitnessState
    signed: SignedCheckpoint
    leaves: tuple[bytes, ...]
    before: int
    named: bool


def new_witness(path: Path, name: str) -> NoteKey:
    """Write a state file with a new key, mode 0600; return the public key. Raises RegistryError
    if the file is there: a key is never overwritten."""
    state = WitnessState(check_name(name), secrets.token_hex(32))
    if os.path.lexists(path):
        raise RegistryError(f"{path}: exists; a key is never overwritten")
    write_witness(path, state)
    return state.key


def read_witness(path: Path) -> WitnessState:
    """Return the contents of a state file. Raises RegistryError, never with what it holds."""
    try:
        mode, data = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        remedy = f"make one with `dosimeter witness init {path}`"
        raise RegistryError(f"{path}: {error.strerror}: {remedy}") from None
    if mode & 0o077:
        raise RegistryError(f"{path}: others can read this key: chmod 600 {path}")
    try:
        state = read_record(WitnessState, parse_canonical(data, "state"), "state")
        assert len(bytes.fromhex(state.secret)) == 32  # noqa: S101
    except (BrokenPromise, ValueError, AssertionError):
        raise RegistryError(f"{path}: not a witness's state file, or damaged") from None
    return state


def write_witness(path: Path, state: WitnessState) -> None:
    """Write a state file whole or not at all, mode 0600. Raises RegistryError."""
    try:
        write_whole(path, canonical_bytes(asdict(state)), mode=0o600)
    except OSError as error:
        raise RegistryError(f"{path}: cannot write the state: {error.strerror}") from error


def cosign(
    state: WitnessState,
    store: Store,
    seconds: int,
    study_key: str = "",
    given: Mapping[str, bytes] | None = None,
) -> Cosigned:
    """Return a study's newest checkpoint with the witness's cosignature: the newest in the store,
    or of those ``given``, by place. Nothing is written.

    ``study_key`` is the study's public key, known from elsewhere; it is needed at the first time.
    Raises BrokenPromise, which names the record, for a ledger that does not hold or does not extend
    the one that the witness saw; RegistryError where there is no checkpoint.
    """
    entries, broken = inspect_chain(store)
    _check_study(state, entries, study_key)
    findings = check_checkpoints(store, entries, given)
    seen, leaves = state.ledgers.get(entries[0].signer), leaf_hashes(entries)
    if seen is not None and not broken:
        _check_grown(seen, leaves)
    for place, problem in (*broken, *findings.problems):
        raise BrokenPromise(f"{place}: {problem}")
    if not findings.checkpoints:
        raise RegistryError(
            f"{store.uri}: no checkpoint is there yet: ask the study for `dosimeter checkpoint`"
        )
    newest = findings.checkpoints[-1]
    size, before = newest.checkpoint.size, 0 if seen is None else len(seen.leaves)
    if size < before:
        raise BrokenPromise(
            f"the newest checkpoint has {size} records, and you signed one of {before}: older ones"
            " are not signed again; ask the study for `dosimeter checkpoint`"
        )
    if seen is not None and size == before and newest.note.text != seen.text:
        raise BrokenPromise(f"a split view: you signed another checkpoint of {size} records")
    cosignature = cosign_note(newest.note.text, state.key, state.signer, seconds)
    note = Note(newest.note.text, (*newest.note.signatures[:1], cosignature))
    here = SeenLedger(_study_of(entries), note.text, tuple(leaf.hex() for leaf in leaves[:size]))
    known = replace(state, ledgers={**state.ledgers, entries[0].signer: here})
    signed = SignedCheckpoint(newest.checkpoint, note, ((state.name, iso_time(seconds)),))
    named = state.key in witnesses_of(entries[:1]).keys
    return Cosigned(known, signed, tuple(leaves[:size]), before, named)


def read_own(data: bytes, entries: tuple[Entry, ...], place: str) -> SignedCheckpoint:
    """Return the checkpoint of a file. Raises BrokenPromise unless it is of this ledger, signed by
    the study's key."""
    signed = read_checkpoint(read_note(data, place), witnesses_of(entries[:1]), place)
    checkpoint = signed.checkpoint
    whole, study = entries[: checkpoint.size], entries[0].signer if entries else ""
    if (len(whole), study) != (checkpoint.size, checkpoint.study) or (
        root_of(leaf_hashes(whole)) != checkpoint.root
    ):
        raise BrokenPromise(f"{place}: not a checkpoint of this ledger")
    return signed


def read_cosigned(data: bytes, entries: tuple[Entry, ...], place: str) -> SignedCheckpoint:
    """Return the checkpoint of a file that a witness sent. Raises BrokenPromise unless it is of
    this ledger, and has the cosignature of a witness that the study names."""
    signed = read_own(data, entries, place)
    if not signed.witnesses:
        raise BrokenPromise(f"{place}: no witness that the study names has signed it")
    return signed


def _check_study(state: WitnessState, entries: tuple[Entry, ...], study_key: str) -> None:
    """Raise BrokenPromise if a ledger is not signed by the key that it was signed by, or ought to
    be; RegistryError if a witness who meets it for the first time does not say which."""
    if not entries:
        raise BrokenPromise("ledger/: no records are there")
    found, name = entries[0].signer, _study_of(entries)
    known = [key for key, seen in state.ledgers.items() if name and seen.study == name]
    if known and found not in state.ledgers:
        raise BrokenPromise(
            f"{record_key(0)}: the study {name} is signed by {found}, and you signed a ledger of"
            f" that name by {known[0]}: it was rewritten from its first record"
        )
    if study_key and study_key != found:
        raise BrokenPromise(f"{record_key(0)}: signed by {found}, not by the given key {study_key}")
    if not study_key and found not in state.ledgers:
        raise RegistryError(
            f"this ledger is new to you, and is signed by {found}: compare that with the key that"
            f" the study's authors publish, then give it: --study-key {found}"
        )


def _check_grown(seen: SeenLedger, leaves: list[bytes]) -> None:
    """Raise BrokenPromise unless a ledger holds all the records that a witness saw, unchanged."""
    number = find_rewritten([bytes.fromhex(leaf) for leaf in seen.leaves], leaves)
    if number is None:
        return
    if number < len(leaves):
        raise BrokenPromise(
            f"{record_key(number)}: was rewritten: it is not the record that you saw before you"
            f" signed the checkpoint of {len(seen.leaves)} records"
        )
    raise BrokenPromise(
        f"ledger/: rolled back to {len(leaves)} records: {spell_records(number, len(seen.leaves))}"
        f" in the checkpoint of {len(seen.leaves)} records that you signed"
    )


def _study_of(entries: tuple[Entry, ...]) -> str:
    """Return the name of the study, as its first record has it."""
    record = entries[0].record if entries[0].kind == "announcement" else None
    return record.study if isinstance(record, Announcement) else ""

"""Witnesses: they sign a ledger that grew, and refuse any other with the name of the record."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from registry.checkpoints import (
    WitnessState,
    check_checkpoints,
    checkpoint_text,
    cosign,
    new_witness,
    read_cosigned,
    read_key,
    read_witness,
    write_witness,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger import Entry, Ledger, inspect_chain
from registry.signing import Signer
from registry.stores import Store
from registry.stores.base import MemoryStore
from tests.ledgers import SIGNER
from tests.registry.checkpoints.watched import (
    ANNA,
    BEN,
    begin,
    copied,
    grow,
    joined,
    publish,
    rewritten,
    witness,
)

ROOT = Path(__file__).resolve().parents[3]
LATE = "2030-01-01T00:00:00Z"


def _signed_once(store: Store, size: int = 4) -> WitnessState:
    """What Anna knows after she signed a ledger, which she and Ben watch, at a size."""
    publish(begin(store, (ANNA, BEN), 2, size))
    return witness(ANNA, store)


def test_a_ledger_that_grew_is_signed(store: Store) -> None:
    state = _signed_once(store)
    ledger = Ledger(store, lambda: SIGNER)
    grow(ledger, 7)
    publish(ledger)
    made = cosign(state, store, 1_800_000_000)
    assert (made.before, made.signed.checkpoint.size, made.named) == (4, 7, True)
    assert len(made.state.ledgers[SIGNER.public].leaves) == 7
    again = cosign(made.state, store, 1_800_000_000)
    assert bytes(again.signed.note) == bytes(made.signed.note), "a witness may sign again"


def test_without_a_new_checkpoint_nothing_new_is_signed(store: Store) -> None:
    state = _signed_once(store)
    grow(Ledger(store, lambda: SIGNER), 7)
    assert cosign(state, store, 1_800_000_000).signed.checkpoint.size == 4
    with pytest.raises(RegistryError, match="no checkpoint is there yet"):
        cosign(ANNA, rewritten(3, None), 1_800_000_000, SIGNER.public)


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_a_rewritten_record_is_refused_by_name(store: Store, changed: int) -> None:
    """The owner hides the old checkpoints too: what the witness keeps names the record."""
    state = _signed_once(store)
    tampered = Ledger(rewritten(6, changed, like=store), lambda: SIGNER)
    publish(tampered)
    with pytest.raises(BrokenPromise, match=rf"^ledger/{changed:08d}.json: was rewritten"):
        cosign(state, tampered.store, 1_800_000_000)


def test_a_rollback_is_refused(store: Store) -> None:
    state = _signed_once(store)
    shorter = Ledger(rewritten(2, None, like=store), lambda: SIGNER)
    publish(shorter)
    match = r"rolled back to 2 records: records 2 to 3 were in the checkpoint of 4 records that you"
    with pytest.raises(BrokenPromise, match=match):
        cosign(state, shorter.store, 1_800_000_000)
    with pytest.raises(BrokenPromise, match="no records are there"):
        cosign(state, MemoryStore(), 1_800_000_000)


def test_an_older_checkpoint_is_not_signed_again(store: Store) -> None:
    ledger = begin(store, (ANNA,), 1, 3)
    publish(ledger)
    old = copied(store, "checkpoints/")
    grow(ledger, 5)
    publish(ledger)
    state = witness(ANNA, store)
    with pytest.raises(BrokenPromise, match="has 3 records, and you signed one of 5"):
        cosign(state, joined(store, old), 1_800_000_000)


def test_a_split_view_is_refused(store: Store) -> None:
    """Anna is given a checkpoint that was shown to others: of another record 3."""
    state = _signed_once(store)
    other = Ledger(rewritten(4, 3, like=store), lambda: SIGNER)
    shown = bytes(publish(other).note)
    with pytest.raises(BrokenPromise, match="a split view: the study signed two checkpoints of 4"):
        cosign(state, store, 1_800_000_000, given={"shown": shown})


def test_a_ledger_that_does_not_hold_is_refused(store: Store) -> None:
    state = _signed_once(store)
    broken = copied(store)
    broken.replace("ledger/00000002.json", store.get("ledger/00000001.json"))
    with pytest.raises(BrokenPromise, match=r"ledger/00000002.json: holds record 1: it was moved"):
        cosign(state, broken, 1_800_000_000)


def test_a_study_with_another_key_is_refused(store: Store) -> None:
    state, thief = _signed_once(store), Signer(bytes([9]) * 32)
    replaced = rewritten(4, None, thief, like=store)
    match = f"ledger/00000000.json: the study study is signed by {thief.public}, and you signed"
    for given in ("", thief.public):
        with pytest.raises(BrokenPromise, match=match):
            cosign(state, replaced, 1_800_000_000, given)


def test_the_first_time_needs_the_study_s_key(store: Store) -> None:
    publish(begin(store, (ANNA,), 1, 3))
    with pytest.raises(RegistryError, match=f"then give it: --study-key {SIGNER.public}"):
        cosign(ANNA, store, 1_800_000_000)
    with pytest.raises(BrokenPromise, match="not by the given key"):
        cosign(ANNA, store, 1_800_000_000, "ab" * 32)


def test_a_file_that_a_witness_sent_is_checked(store: Store) -> None:
    ledger = begin(store, (ANNA,), 1, 3)
    publish(ledger)
    sent = bytes(cosign(ANNA, store, 1_800_000_000, SIGNER.public).signed.note)
    stranger = bytes(cosign(BEN, store, 1_800_000_000, SIGNER.public).signed.note)
    assert not cosign(BEN, store, 1_800_000_000, SIGNER.public).named
    entries = ledger.entries()
    signed = read_cosigned(sent, entries, "anna.txt")
    assert [name for name, _ in signed.witnesses] == ["example.org/anna"]
    with pytest.raises(BrokenPromise, match="no witness that the study names has signed it"):
        read_cosigned(stranger, entries, "ben.txt")
    for other in (entries[:2], rewritten_entries(store)):
        with pytest.raises(BrokenPromise, match=r"anna.txt: not a checkpoint of this ledger"):
            read_cosigned(sent, other, "anna.txt")


def rewritten_entries(store: Store) -> tuple[Entry, ...]:
    """The records of a ledger with another record 2."""
    return inspect_chain(rewritten(4, 2, like=store))[0]


def test_two_witnesses_show_who_was_shown_what(store: Store) -> None:
    """Of one study, one store for each: their two files show a split view to anybody."""
    begin(store, (ANNA, BEN), 2, 4)
    other = Ledger(rewritten(4, 2, like=store), lambda: SIGNER)
    files = {}
    for state, ledger in ((ANNA, Ledger(store, lambda: SIGNER)), (BEN, other)):
        publish(ledger)
        witness(state, ledger.store)
        text = checkpoint_text(ledger.store, ledger.entries(), SIGNER, LATE)
        files[state.name] = text.encode()
    for shown in (store, other.store):
        problems = check_checkpoints(shown, inspect_chain(shown)[0], files).problems
        assert "a split view" in problems[0][1]
        assert all(name in problems[0][1] for name in files)


# --- The state file ---


def test_a_state_file_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "anna.witness"
    key = new_witness(path, "example.org/anna")
    assert read_key(str(key)) == key == read_witness(path).key
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_witness(path).secret not in repr(read_witness(path))
    with pytest.raises(RegistryError, match="never overwritten"):
        new_witness(path, "example.org/anna")
    write_witness(path, replace(read_witness(path), ledgers={}))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(RegistryError, match="chmod 600"):
        read_witness(path)
    with pytest.raises(RegistryError, match="is not a key's name"):
        new_witness(tmp_path / "ben", "ben with spaces")
    with pytest.raises(RegistryError, match="cannot write the state"):
        new_witness(tmp_path / "no" / "ben", "ben")
    assert os.listdir(tmp_path) == ["anna.witness"]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"ledgers":{},"name":"a","secret":"zz"}'])
def test_a_damaged_state_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "anna.witness"
    path.touch(0o600)
    path.write_bytes(data)
    with pytest.raises(RegistryError, match="not a witness's state file"):
        read_witness(path)
    with pytest.raises(RegistryError, match="make one with `dosimeter witness init"):
        read_witness(tmp_path / "none")

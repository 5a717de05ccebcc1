"""Checkpoints: rollback, split view and rewritten record are named, with no key."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from registry.checkpoints import (
    SignedCheckpoint,
    check_checkpoints,
    checkpoint_text,
    checkpoints_until,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.checkpoints.check import CheckpointFindings
from registry.checkpoints.checkpoint import Checkpoint, read_checkpoint, witnesses_of
from registry.checkpoints.note import Note, read_note, sign_note
from registry.errors import BrokenPromise, RegistryError
from registry.ledger import Ledger, inspect_chain, merkle_root
from registry.signing import Signer
from registry.stores import Store
from registry.stores.base import MemoryStore
from registry.verify import verify_study
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

STRANGER = Signer(bytes([9]) * 32)


def _check(store: Store, **given: bytes) -> CheckpointFindings:
    return check_checkpoints(store, inspect_chain(store)[0], given)


def _watched(store: Store, size: int = 6) -> Ledger:
    """A ledger whose checkpoints of 4 and of all records two witnesses signed."""
    ledger = begin(store, (ANNA, BEN), 2, 4)
    publish(ledger)
    for state in (ANNA, BEN):
        witness(state, store)
    grow(ledger, size)
    publish(ledger)
    for state in (ANNA, BEN):
        witness(state, store)
    return ledger


def test_a_checkpoint_is_a_note_that_a_stranger_can_check(store: Store) -> None:
    ledger = begin(store, (), 0, 5)
    note = bytes(publish(ledger).note).decode()
    text, _, line = note.partition("\n\n")
    origin, size, root, head = text.split("\n")
    records = [store.get(f"ledger/{number:08d}.json") for number in range(5)]
    assert origin == f"dosimeter/{SIGNER.public}"
    assert size == "5"
    assert base64.b64decode(root) == merkle_root(records)
    assert head == "head sha256:" + hashlib.sha256(records[4]).hexdigest()
    assert line.startswith(f"— {origin} ")
    assert [key for key in store.list("checkpoints/") if store.get(key) == note.encode()] == [
        f"checkpoints/00000005/{hashlib.sha256(note.encode()).hexdigest()}.txt"
    ]
    publish(ledger)
    assert len(list(store.list("checkpoints/"))) == 2, "the note and its leaves, once"


def test_a_watched_ledger_holds_and_says_who_signed(store: Store) -> None:
    _watched(store)
    findings = _check(store)
    assert (findings.problems, findings.unchecked) == ([], [])
    assert dict(findings.counts) == {
        "checkpoints": 2,
        "witnesses that signed the newest checkpoint": 2,
        "witnesses needed": 2,
        "records under witnessed checkpoints": 6,
    }


def test_records_after_the_last_witnessed_checkpoint_are_unchecked(store: Store) -> None:
    ledger = begin(store, (ANNA, BEN), 2, 4)
    assert _check(store).unchecked == [
        "whether records 0 to 3 were rewritten: no checkpoint of them has the 2 needed witnesses"
        " (not yet example.org/anna, example.org/ben)"
    ]
    publish(ledger)
    witness(ANNA, store)
    assert _check(store).unchecked == [
        "whether records 0 to 3 were rewritten: 1 of 2 needed witnesses signed the checkpoint of 4"
        " records (not yet example.org/ben)"
    ]
    witness(BEN, store)
    assert _check(store).unchecked == []
    grow(ledger, 7)
    (left,) = _check(store).unchecked
    assert left.startswith("whether records 4 to 6 were rewritten")


def test_without_witnesses_that_is_said(store: Store) -> None:
    publish(begin(store, (), 0, 2))
    (unchecked,) = _check(store).unchecked
    assert "the study names no witnesses" in unchecked


def test_a_rollback_is_named(store: Store) -> None:
    _watched(store)
    rolled = joined(rewritten(5, None, like=store), store)
    (problem,) = _check(rolled).problems
    assert problem[0] == "ledger/"
    assert re.match(
        r"rolled back to 5 records: record 5 was in the checkpoint of 6 records, which the study's "
        r"key and example.org/anna on \S+ and example.org/ben on \S+ signed",
        problem[1],
    )
    emptied = MemoryStore()
    for key in store.list("checkpoints/"):
        emptied.put(key, store.get(key))
    assert _check(emptied).problems[0][0] == "ledger/"


@pytest.mark.parametrize("changed", [1, 3, 4, 5])
def test_a_rewritten_record_is_named(store: Store, changed: int) -> None:
    """With the study's key, and the whole chain after it signed anew."""
    _watched(store)
    tampered = joined(rewritten(8, changed, like=store), store)
    assert inspect_chain(tampered)[1] == (), "the chain itself shows nothing"
    found = _check(tampered).problems
    assert {place for place, _ in found} == {f"ledger/{changed:08d}.json"}
    assert all(problem.startswith("was rewritten: it is not the record") for _, problem in found)


def test_without_leaves_the_record_is_named_as_near_as_can_be(store: Store) -> None:
    _watched(store)
    notes = MemoryStore()
    for key in store.list("checkpoints/"):
        if key.endswith(".txt"):
            notes.put(key, store.get(key))
    ((place, problem),) = _check(joined(rewritten(8, 4, like=store), notes)).problems
    assert place == "ledger/00000004.json to 00000005.json"
    assert "one of these was rewritten" in problem


def test_a_checkpoint_by_the_study_alone_does_not_move_where_it_was_rewritten(store: Store) -> None:
    """One of the ledger as it is now, beside one that witnesses signed of what it was."""
    _watched(store)
    tampered = rewritten(8, 2, like=store)
    ours = sign_checkpoint(Ledger(tampered).entries()[:5], SIGNER)
    theirs = _check(store).checkpoints[-1]
    ((place, _),) = _check(tampered, ours=bytes(ours.note), theirs=bytes(theirs.note)).problems
    assert place == "ledger/00000000.json to 00000005.json"


def test_a_split_view_is_named(store: Store) -> None:
    """Two ledgers of the same study, each shown to one witness."""
    begin(store, (ANNA, BEN), 2, 4)
    other = Ledger(rewritten(4, 3, like=store), lambda: SIGNER)
    publish(Ledger(store, lambda: SIGNER))
    publish(other)
    witness(ANNA, store)
    witness(BEN, other.store)
    for key in other.store.list("checkpoints/"):
        store.put(key, other.store.get(key))
    split, altered = _check(store).problems
    assert split[0] == "checkpoints/00000004/"
    assert split[1].startswith("a split view: the study signed two checkpoints of 4 records")
    assert "example.org/anna" in split[1]
    assert "example.org/ben" in split[1]
    assert altered[0] == "ledger/00000003.json"


def test_checkpoints_that_were_kept_elsewhere_show_what_the_store_hides(store: Store) -> None:
    ledger = _watched(store)
    kept = checkpoint_text(store, ledger.entries(), SIGNER, "2027-12-31T00:00:00Z").encode()
    assert kept.count("—".encode()) == 3
    assert _check(store, kept=kept).problems == []
    cases = {
        "ledger/": rewritten(5, None, like=store),
        "ledger/00000000.json to 00000005.json": rewritten(8, 2, like=store),
    }
    for place, tampered in cases.items():
        assert _check(tampered).problems == [], "with the store's own checkpoints removed"
        assert [found for found, _ in _check(tampered, kept=kept).problems] == [place]
    stranger = rewritten(6, None, STRANGER, like=store)
    ((place, problem),) = _check(stranger, kept=kept).problems
    assert place == "kept"
    assert "the ledger was replaced, or is another's" in problem
    assert _check(MemoryStore(), kept=kept).problems[0][0] == "kept"


def test_a_given_file_that_is_no_checkpoint_is_a_problem(store: Store) -> None:
    ledger = begin(store, (), 0, 3)
    note = publish(ledger).note
    forged = Note(note.text.replace("\n3\n", "\n2\n"), note.signatures)
    for data in (b"hello", bytes(forged), bytes(Note("hello\n", note.signatures))):
        ((place, _),) = _check(store, kept=data).problems
        assert place == "kept"


def test_what_strangers_put_there_is_not_in_the_way(store: Store) -> None:
    """Junk, a note that is not signed, and another study's are reported and count for nothing."""
    ledger = _watched(store)
    entries = ledger.entries()
    head = entries[-1].digest
    lie = Checkpoint(SIGNER.public, 6, bytes(32), head)
    unsigned = Note(lie.text, (sign_note(lie.text, lie.key, STRANGER),))
    theirs = Checkpoint(STRANGER.public, 6, bytes(32), head)
    foreign = Note(theirs.text, (sign_note(theirs.text, theirs.key, STRANGER),))
    for number, data in enumerate((b"junk", bytes(unsigned), bytes(foreign))):
        assert store.put(f"checkpoints/00000006/{number:064d}.txt", data)
    findings = _check(store)
    assert findings.problems == []
    assert len(findings.unchecked) == 3
    assert findings.counts["witnesses that signed the newest checkpoint"] == 2


def test_a_witness_counts_by_key_and_not_by_name(store: Store) -> None:
    ledger = begin(store, (ANNA,), 1, 3)
    publish(ledger)
    witness(type(ANNA)(ANNA.name, "0c" * 32), store)
    assert _check(store).counts["witnesses that signed the newest checkpoint"] == 0


def test_a_head_that_is_not_of_the_root_is_named(store: Store) -> None:
    entries = begin(store, (), 0, 3).entries()
    made = sign_checkpoint(entries, SIGNER).checkpoint
    lie = Checkpoint(SIGNER.public, 3, made.root, entries[1].digest)
    note = Note(lie.text, (sign_note(lie.text, lie.key, SIGNER),))
    put_checkpoint(store, SignedCheckpoint(lie, note, ()), leaf_hashes(entries))
    ((place, problem),) = _check(store).problems
    assert place == "checkpoints/00000003/"
    assert "is not of its root" in problem


def test_a_second_key_or_an_empty_ledger_makes_no_checkpoint(store: Store) -> None:
    with pytest.raises(RegistryError, match="no records yet"):
        sign_checkpoint((), SIGNER)
    with pytest.raises(RegistryError, match="signed by the study's key, which this one is not"):
        sign_checkpoint(begin(store, (), 0, 2).entries(), STRANGER)


def test_a_text_of_an_earlier_time_stays_as_it_was(store: Store) -> None:
    """A release that is published again has the same bytes, though more witnesses have signed."""
    ledger = begin(store, (ANNA, BEN), 2, 4)
    publish(ledger)
    witness(ANNA, store, 1_800_000_000)
    entries = ledger.entries()
    until = "2027-01-15T08:00:00Z"  # that second
    before = checkpoint_text(store, entries, SIGNER, until)
    witness(BEN, store, 1_800_000_001)
    grow(ledger, 6)
    publish(ledger)
    assert checkpoint_text(store, entries, SIGNER, until) == before
    note = read_note(before.encode(), "release")
    signed = read_checkpoint(note, witnesses_of(entries[:1]), "release")
    assert signed.witnesses == (("example.org/anna", until),)
    later = checkpoints_until(store, ledger.entries(), SIGNER, "2028-01-01T00:00:00Z")
    assert [one.checkpoint.size for one in later] == [4, 6]
    assert [len(one.witnesses) for one in later] == [2, 0]


def test_an_announcement_with_a_damaged_witness_is_named(store: Store) -> None:
    ledger = begin(store, (ANNA,), 2, 2)
    with pytest.raises(BrokenPromise, match="ledger record 0: threshold 2: of 1 witnesses"):
        witnesses_of(ledger.entries()[:1])
    assert _check(store).problems[0][0] == "ledger record 0"


def test_verify_names_it_and_counts(store: Store) -> None:
    _watched(store)
    whole = verify_study(store)
    assert whole.holds
    assert dict(whole.counts)["witnesses that signed the newest checkpoint"] == 2
    tampered = joined(rewritten(8, 4, like=store), store)
    places = [place for place, _ in verify_study(tampered).problems]
    assert places == ["ledger/00000004.json"]
    altered = copied(store)
    key = next(key for key in altered.list("checkpoints/") if key.endswith(".txt"))
    altered.replace(key, altered.get(key) + b"\n")
    assert key in [place for place, _ in verify_study(altered).problems]

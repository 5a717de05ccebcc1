"""Checkpoints: rollback, split view and rewritten record are named, with no key."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest

from registry.checkpoints.checkpoint import (
    Checkpoint,
    leaf_hashes,
    put_checkpoint,
    read_checkpoint,
    sign_checkpoint,
    sign_note,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Ledger, inspect_chain
from registry.ledger.merkle import merkle_root
from registry.signing import Signer, is_signed_text
from registry.stores.base import MemoryStore, Store
from registry.verify.verify import verify_study
from tests.ledgers import SIGNER
from tests.registry.checkpoints.watched import begin, copied, grow, joined, publish, rewritten, seen

STRANGER = Signer(bytes([9]) * 32)


def _watched(store: Store, size: int = 6) -> Ledger:
    """A ledger with checkpoints of 4 and of all records."""
    ledger = begin(store, 4)
    publish(ledger)
    grow(ledger, size)
    publish(ledger)
    return ledger


def test_a_checkpoint_is_a_note_that_a_stranger_can_check(store: Store) -> None:
    ledger = begin(store, 5)
    note = publish(ledger).note.decode()
    text, _, line = note.partition("\n\n")
    origin, size, root, head = text.split("\n")
    records = [store.get(f"ledger/{number:08d}.json") for number in range(5)]
    assert origin == f"dosimeter/{SIGNER.public}"
    assert size == "5"
    assert base64.b64decode(root) == merkle_root(records)
    assert head == "head sha256:" + hashlib.sha256(records[4]).hexdigest()
    dash, name, code = line.rstrip("\n").split(" ")
    key = bytes.fromhex(SIGNER.public)
    assert (dash, name) == ("—", origin)
    signed = base64.b64decode(code)
    assert signed[:4] == hashlib.sha256(f"{origin}\n\x01".encode() + key).digest()[:4]
    assert is_signed_text(key, signed[4:], f"{text}\n".encode())
    assert [key for key in store.list("checkpoints/") if store.get(key) == note.encode()] == [
        f"checkpoints/00000005/{hashlib.sha256(note.encode()).hexdigest()}.txt"
    ]
    publish(ledger)
    assert len(list(store.list("checkpoints/"))) == 2, "the note and its leaves, once"


def test_a_ledger_that_extends_its_checkpoints_holds(store: Store) -> None:
    _watched(store)
    findings = seen(store)
    assert findings.problems == []
    assert findings.unchecked == [
        "whether records 0 to 5 were rewritten by the study's own key: no time-stamp that was"
        " checked covers them"
    ]
    assert dict(findings.counts) == {"checkpoints": 2}
    assert seen(store, noted=True).unchecked == []


def test_a_rollback_is_named(store: Store) -> None:
    _watched(store)
    rolled = joined(rewritten(5, None), store)
    assert seen(rolled).problems == [
        (
            "ledger/",
            "rolled back to 5 records: record 5 was in the checkpoint of 6 records, which the"
            " study's key signed",
        )
    ]
    assert seen(copied(store, "checkpoints/")).problems[0][0] == "ledger/"


@pytest.mark.parametrize("changed", [1, 3, 4, 5])
def test_a_rewritten_record_is_named(store: Store, changed: int) -> None:
    """With the study's key, and the whole chain after it signed anew."""
    _watched(store)
    tampered = joined(rewritten(8, changed), store)
    assert inspect_chain(tampered)[1] == (), "the chain itself shows nothing"
    found = seen(tampered).problems
    assert {place for place, _ in found} == {f"ledger/{changed:08d}.json"}
    assert all(problem.startswith("was rewritten: it is not the record") for _, problem in found)


def test_without_leaves_all_records_of_the_checkpoint_are_named(store: Store) -> None:
    """The study may have signed another ledger's smaller checkpoint: that one narrows nothing."""
    _watched(store)
    notes = MemoryStore()
    for key in store.list("checkpoints/"):
        if key.endswith(".txt"):
            notes.put(key, store.get(key))
    ((place, problem),) = seen(joined(rewritten(8, 4), notes)).problems
    assert place == "ledger/00000000.json to 00000005.json"
    assert "one of these was rewritten" in problem


def test_a_split_view_is_named(store: Store) -> None:
    """Two ledgers of the same study, each with a checkpoint."""
    publish(begin(store, 4))
    other = Ledger(rewritten(4, 3), lambda: SIGNER)
    publish(other)
    for key in other.store.list("checkpoints/"):
        store.put(key, other.store.get(key))
    split, altered = seen(store).problems
    assert split[0] == "checkpoints/00000004/"
    assert split[1].startswith("a split view: the study signed two checkpoints of 4 records")
    assert altered[0] == "ledger/00000003.json"


def test_checkpoints_that_were_kept_elsewhere_show_what_the_store_hides(store: Store) -> None:
    kept = sign_checkpoint(_watched(store).entries(), SIGNER).note
    assert seen(store, kept=kept).problems == []
    cases = {
        "ledger/": rewritten(5, None),
        "ledger/00000000.json to 00000005.json": rewritten(8, 2),
    }
    for place, tampered in cases.items():
        assert seen(tampered).problems == [], "with the store's own checkpoints removed"
        assert [found for found, _ in seen(tampered, kept=kept).problems] == [place]
    ((place, problem),) = seen(rewritten(6, None, STRANGER), kept=kept).problems
    assert place == "kept"
    assert "the ledger was replaced, or is another's" in problem
    assert seen(MemoryStore(), kept=kept).problems[0][0] == "kept"


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda note: b"",
    "other words": lambda note: b"hello\n" + note,
    "another size": lambda note: note.replace(b"\n3\n", b"\n2\n"),
    "no signature": lambda note: note.partition(b"\n\n")[0] + b"\n",
    "a second signature": lambda note: note + note.splitlines(keepends=True)[-1],
    "a signature that is cut": lambda note: note[:-9] + b"\n",
    "a signature that is no base64": lambda note: note[:-4] + b"===\n",
    "another key's ID": lambda note: note.replace(note[-97:-90], b"AAAAAAA"),
    "other ends of lines": lambda note: note.replace(b"\n", b"\r\n"),
    "not UTF-8": lambda note: note.replace(b"dosimeter", b"\xff"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_a_given_file_that_is_no_checkpoint_is_a_problem(name: str) -> None:
    store = MemoryStore()
    note = publish(begin(store, 3)).note
    altered = ALTERED[name](note)
    assert altered != note
    with pytest.raises(BrokenPromise, match=r"^note: not "):
        read_checkpoint(altered, "note")
    ((place, _),) = seen(store, kept=altered).problems
    assert place == "kept"


def test_what_strangers_put_there_is_not_in_the_way(store: Store) -> None:
    """Junk, a note that is not signed, and another study's are reported and count for nothing."""
    head = _watched(store).entries()[-1].digest
    lie = Checkpoint(SIGNER.public, 6, bytes(32), head)
    theirs = Checkpoint(STRANGER.public, 6, bytes(32), head)
    notes = (b"junk", sign_note(lie, STRANGER).note, sign_note(theirs, STRANGER).note)
    for number, data in enumerate(notes):
        assert store.put(f"checkpoints/00000006/{number:064d}.txt", data)
    findings = seen(store)
    assert findings.problems == []
    assert len(findings.unchecked) == 3 + 1
    assert findings.counts["checkpoints"] == 2


def test_a_head_that_is_not_of_the_root_is_named(store: Store) -> None:
    entries = begin(store, 3).entries()
    made = sign_checkpoint(entries, SIGNER).checkpoint
    lie = Checkpoint(SIGNER.public, 3, made.root, entries[1].digest)
    put_checkpoint(store, sign_note(lie, SIGNER), leaf_hashes(entries))
    ((place, problem),) = seen(store).problems
    assert place == "checkpoints/00000003/"
    assert "is not of its root" in problem


def test_a_second_key_or_an_empty_ledger_makes_no_checkpoint(store: Store) -> None:
    with pytest.raises(RegistryError, match="no records yet"):
        sign_checkpoint((), SIGNER)
    with pytest.raises(RegistryError, match="signed by the study's key, which this one is not"):
        sign_checkpoint(begin(store, 2).entries(), STRANGER)


def test_verify_names_it_and_counts(store: Store) -> None:
    _watched(store)
    whole = verify_study(store)
    assert whole.holds
    assert dict(whole.counts)["checkpoints"] == 2
    tampered = joined(rewritten(8, 4), store)
    assert [place for place, _ in verify_study(tampered).problems] == ["ledger/00000004.json"]
    altered = copied(store)
    key = next(key for key in altered.list("checkpoints/") if key.endswith(".txt"))
    altered.replace(key, altered.get(key) + b"\n")
    assert key in [place for place, _ in verify_study(altered).problems]

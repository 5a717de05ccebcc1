"""A ledger that witnesses watch, and what its owner may do to it with the study's own key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from registry.checkpoints import (
    SignedCheckpoint,
    WitnessState,
    cosign,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.ledger import Ledger, Look, Parties
from registry.signing import Signer
from registry.stores import Store
from registry.stores.base import MemoryStore
from tests.ledgers import SIGNER, announcement

NOW = "2026-11-01T12:00:00Z"
ANNA = WitnessState("example.org/anna", "0a" * 32)
BEN = WitnessState("example.org/ben", "0b" * 32)


def begin(store: Store, witnesses: Sequence[WitnessState], threshold: int, size: int) -> Ledger:
    """Return a ledger with an announcement and looks, of so many records."""
    ledger = Ledger(store, lambda: SIGNER)
    keys = tuple(str(state.key) for state in witnesses)
    ledger.append(announcement(Parties(witnesses=keys, witness_threshold=threshold)), NOW)
    grow(ledger, size)
    return ledger


def grow(ledger: Ledger, size: int, changed: int | None = None) -> None:
    """Append looks until there are so many records; ``changed`` is one with another body."""
    for number in range(len(ledger.entries()), size):
        count = 999 if number == changed else number
        ledger.append(Look(f"look {count}", ()), NOW)


def publish(ledger: Ledger, signer: Signer = SIGNER) -> SignedCheckpoint:
    """Store the study's checkpoint of a ledger."""
    entries = ledger.entries()
    signed = sign_checkpoint(entries, signer)
    put_checkpoint(ledger.store, signed, leaf_hashes(entries))
    return signed


def witness(
    state: WitnessState,
    store: Store,
    seconds: int = 1_800_000_000,
    study_key: str = SIGNER.public,
) -> WitnessState:
    """Let a witness sign, and return what they know then."""
    made = cosign(state, store, seconds, study_key)
    put_checkpoint(store, made.signed, made.leaves)
    return made.state


def rewritten(
    size: int, changed: int | None, signer: Signer = SIGNER, like: Store | None = None
) -> MemoryStore:
    """Return a store with another ledger of the same study, whole and signed: the record
    ``changed`` has another body, unless it is None. It begins as the one in ``like``."""
    store = MemoryStore()
    ledger = Ledger(store, lambda: signer)
    first = Ledger(like).entries()[0].record if like else announcement()
    ledger.append(replace(first, study="other") if changed == 0 else first, NOW)
    grow(ledger, size, changed)
    return store


def copied(store: Store, prefix: str = "") -> MemoryStore:
    """Return a copy of a store in memory."""
    copy = MemoryStore()
    for key in store.list(prefix):
        copy.put(key, store.get(key))
    return copy


def joined(ledger: Store, checkpoints: Store) -> MemoryStore:
    """Return a store with the ledger of one and the checkpoints of another."""
    store = copied(ledger, "ledger/")
    for key in checkpoints.list("checkpoints/"):
        store.put(key, checkpoints.get(key))
    return store

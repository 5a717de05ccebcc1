"""A ledger with checkpoints, and what its owner may do to it with the study's own key."""

from __future__ import annotations

from dataclasses import replace

from registry.checkpoints.checkpoint import (
    SignedCheckpoint,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.checkpoints.timestamp import Authorities
from registry.ledger.chain import Ledger, inspect_chain
from registry.ledger.records import Look
from registry.signing import Signer
from registry.stores.base import MemoryStore, Store
from registry.verify.checkpoints import check_checkpoints
from registry.verify.findings import Findings
from tests.ledgers import SIGNER, announcement

NOW = "2026-11-01T12:00:00Z"
NOBODY = Authorities(())


def seen(
    store: Store, known: Authorities = NOBODY, noted: bool = False, **given: bytes
) -> Findings:
    """Return what a check of a ledger against its checkpoints finds."""
    findings = Findings(store, None, inspect_chain(store)[0])
    check_checkpoints(findings, given, known, noted)
    return findings


def begin(store: Store, size: int) -> Ledger:
    """Return a ledger with an announcement and looks, of so many records."""
    ledger = Ledger(store, lambda: SIGNER)
    ledger.append(announcement(), NOW)
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


def rewritten(size: int, changed: int | None, signer: Signer = SIGNER) -> MemoryStore:
    """Return a store with another ledger of the same study, whole and signed: the record
    ``changed`` has another body, unless it is None."""
    store = MemoryStore()
    ledger = Ledger(store, lambda: signer)
    first = announcement()
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

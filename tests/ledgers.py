"""A ledger that a test may append to, and keys by which it stores and reads objects."""

from __future__ import annotations

from registry.ledger import Ledger
from registry.sealing import Keys, recipient_of
from registry.signing import Signer
from registry.stores import Store

SIGNER = Signer(bytes(range(32)))


def signed_ledger(store: Store) -> Ledger:
    """Return a store's ledger, whose records a key of the tests signs."""
    return Ledger(store, lambda: SIGNER)


def keys_of(identity: str, run: str = "") -> Keys:
    """Return the keys of an identity, which trust the keys that a ``run``'s identity has certified
    too."""
    signer = Signer.of(identity)
    trusted = {signer.public, *([Signer.of(run).public] if run else [])}
    return Keys((recipient_of(identity),), (identity,), signer, trusted)

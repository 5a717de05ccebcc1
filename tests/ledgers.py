"""A ledger that a test may append to."""

from __future__ import annotations

from registry.ledger import Ledger
from registry.signing import Signer
from registry.stores import Store

SIGNER = Signer(bytes(range(32)))


def signed_ledger(store: Store) -> Ledger:
    """Return a store's ledger, whose records a key of the tests signs."""
    return Ledger(store, lambda: SIGNER)

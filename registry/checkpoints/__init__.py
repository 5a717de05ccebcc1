"""Checkpoints of a ledger: signed, and stamped with a time."""

"""Checkpoints of a ledger: signed, stamped with a time, and checked."""

"""Promises: canonical records, ledger, stores, seals, provenance, result tables."""

"""A study's folder: its key, store and ledger, locks, and set-up."""

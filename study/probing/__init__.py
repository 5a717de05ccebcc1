"""Probes of a wave's models, promised in the ledger, joined to the arms later."""

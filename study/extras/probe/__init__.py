"""Probes of a wave's models, recorded in the ledger and joined to the arms later."""

"""Verification: every promise of a study recomputed from what its store holds."""

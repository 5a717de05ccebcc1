"""Recompute every promise of a study."""

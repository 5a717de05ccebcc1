"""Waves of a study: manifests, sweeps, estimates, and exposure of instances."""

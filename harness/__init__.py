"""Runs episodes: models, agent loop, tools, sandboxes, grading, sweeps on Ray."""

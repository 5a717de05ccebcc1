"""Sweeps on Ray: schedule, leases, worker processes, one cell at a time."""

"""The power of a plan by simulation, and the seeds that it needs."""

"""The power of a plan by simulation."""

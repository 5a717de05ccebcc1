"""Draw and seal the seeds, and promise the plan."""

"""Task families: from a secret-grade seed to an instance, its truth and its rubric. Pure."""

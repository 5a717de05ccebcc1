"""One episode: rollout in a sandbox, grading, and its result."""

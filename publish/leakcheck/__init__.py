"""leakcheck."""

"""Before a study: simulated power of its plan, and seeds and controls that it needs."""

"""The agent loop: turns, tools, limits, and tasks put as a single message."""

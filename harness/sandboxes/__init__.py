"""Sandboxes: Docker, and a local one for the built-in agents."""

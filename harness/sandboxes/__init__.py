"""Sandboxes that carry out tool calls: Docker, and a local one for built-in agents."""

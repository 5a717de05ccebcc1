"""external_agents."""

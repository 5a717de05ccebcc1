"""Checks before a draw and a registration: what is refused later, and what cannot answer."""

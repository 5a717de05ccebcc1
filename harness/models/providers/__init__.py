"""Hosted models: one module per provider, with retries."""

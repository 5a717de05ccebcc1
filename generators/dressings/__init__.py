"""Dressings: other surfaces of the built-in families, which their owners write as small files."""

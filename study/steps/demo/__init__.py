"""A complete small study."""

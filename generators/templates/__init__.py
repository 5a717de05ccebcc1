"""Templated agentic tasks (the PICARD family): files, tables, databases and trees drawn from a
template, with a key that is computed from what was drawn."""

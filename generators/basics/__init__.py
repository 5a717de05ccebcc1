"""Families that any capable agent should solve: they measure the line, not the science."""

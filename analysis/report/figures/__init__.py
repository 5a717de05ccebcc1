"""Plots of the report, as SVG in one style."""

"""The package that ``dosimeter tasks new`` writes."""

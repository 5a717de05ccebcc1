"""Extras of a study: each can be taken out whole (study/catalogue.py)."""

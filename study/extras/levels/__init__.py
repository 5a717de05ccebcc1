"""Levels above the instance: their part of the report, and their least numbers before a draw."""

"""Stored episodes for people: transcripts, use of tools, logs for Inspect View."""

"""Stored episodes for reading: transcripts, and logs for Inspect View."""

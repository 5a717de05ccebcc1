"""Judges of a study: grading, measuring, and grading again for drift."""

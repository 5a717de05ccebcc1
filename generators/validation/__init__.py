"""Validation of task families: solvable, not guessable, reproducible."""

"""Answers, checks and rubrics: from what an agent handed in to a grade."""

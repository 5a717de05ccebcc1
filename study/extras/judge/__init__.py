"""LLM judges of a study: grading, measuring, and grading again for drift."""

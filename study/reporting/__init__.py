"""Looks at a study: the report, the sealed internal report, and its status."""

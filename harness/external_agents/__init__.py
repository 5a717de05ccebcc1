"""Agents with a loop of their own, reached over HTTP."""

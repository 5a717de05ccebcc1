"""Templated questions in detail: by question, scoring type and answer format."""

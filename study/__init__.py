"""The study as people run it: command line, protocol file, pipeline, demo, and an API for
notebooks (docs/python-api.md)."""

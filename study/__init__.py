"""The study as people run it: command line, protocol file, pipeline, demo."""

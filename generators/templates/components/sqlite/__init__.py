"""SQLite databases as template components, written byte by byte."""

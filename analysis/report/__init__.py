"""The report of a look as a value, and its files: HTML, Markdown, JSON and CSV."""

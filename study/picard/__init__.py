"""PICARD template files and run folders: check, prepare, score, import, report."""

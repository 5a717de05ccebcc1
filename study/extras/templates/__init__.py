"""PICARD template files and run folders: check, prepare, run, score, import."""

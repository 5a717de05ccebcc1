"""Task families after the four analyses of PARAMETR-Bench."""

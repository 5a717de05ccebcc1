"""Look for leaked private seeds, and declare a leak."""

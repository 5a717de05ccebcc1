"""picard."""

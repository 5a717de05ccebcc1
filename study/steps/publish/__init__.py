"""Release the public arm."""

"""Evidence beyond the store: released files, reports, the code, and every grade rebuilt."""

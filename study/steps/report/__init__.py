"""Run the registered test, and write the report."""

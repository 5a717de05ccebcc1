"""Run the episodes that a wave still owes."""

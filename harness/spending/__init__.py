"""spending."""

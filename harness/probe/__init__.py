"""Questions about an instance from memory, and the markers of a release."""

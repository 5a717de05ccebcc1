"""The demonstration: a whole study on embedded defaults."""

"""Make and check the keys of a study."""

"""Copy a study's store to another place."""

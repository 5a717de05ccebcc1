"""The steps of a study, in the order in which it is run."""

"""Errors of the command line. Printed as one line; the exit code is 2."""


class StudyError(Exception):
    """Bad input: names the place, the fault and the remedy."""

"""Errors of the command line. Printed as one line; the exit code is 2."""

from __future__ import annotations


class StudyError(Exception):
    """Bad input: names the place, the fault and the remedy."""


class StudyFileError(StudyError):
    """Bad input at a line of a file, and the key that it belongs to; "" for the file as a whole."""

    def __init__(self, file: str, line: int, key: str, message: str) -> None:
        super().__init__(f"{file}:{line}: {key}: {message}" if key else f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.key = key
        self.message = message

    def __reduce__(self) -> tuple[type[StudyFileError], tuple[str, int, str, str]]:
        return type(self), (self.file, self.line, self.key, self.message)

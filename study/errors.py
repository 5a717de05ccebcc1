"""Errors of the command line. Each is printed as one line; docs/reference/cli.md has the exit
codes."""

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


class WorkOwedError(StudyError):
    """Work that was begun and is still owed: a provider failed, or the budget is spent."""

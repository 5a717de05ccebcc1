"""The key that an answer is compared with, and what comes of the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

SCORING_TYPES = (
    "stringmatch",
    "jsonmatch",
    "readfile_stringmatch",
    "readfile_jsonmatch",
    "files_exist",
    "directory_structure",
)


class Workspace(Protocol):
    """What an agent left behind, as scorers see it. Paths are as the key has them."""

    def read(self, path: str) -> bytes | None:
        """A regular file's bytes; None where there is none, or it leads out of the sandbox."""
        ...

    def kind(self, path: str) -> str | None:
        """``file``, ``folder``, or None where there is neither."""
        ...


@dataclass(frozen=True, slots=True)
class Key:
    """What a sample's answer is compared with: complete, nothing left to compute."""

    scoring_type: str
    expected: str = ""  # of stringmatch, jsonmatch, and the content of the read-file kinds
    file: str = ""  # that the read-file kinds read
    paths: tuple[str, ...] = ()  # of files_exist and directory_structure


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Whether one answer is right, and if not, why."""

    correct: bool
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

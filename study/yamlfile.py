"""The YAML files of a study, read within bounds."""

from __future__ import annotations

from pathlib import Path

from generators.yamlfile import Document, Limits, Place, YamlError, parse_yaml
from study.errors import StudyError

MAX_BYTES = 1_000_000
_LIMITS = Limits("a protocol", MAX_BYTES)

__all__ = ["MAX_BYTES", "Document", "Place", "read_bounded", "read_yaml"]


def read_yaml(path: Path) -> Document:
    """The document of a file. Raises StudyError that names file, line and what is wrong."""
    try:
        data = read_bounded(path, MAX_BYTES, _LIMITS.kind)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file; `dosimeter init DIR` writes one") from None
    try:
        document = parse_yaml(data, str(path), _LIMITS)
    except YamlError as error:
        raise StudyError(str(error)) from error
    for fault in document.faults:
        raise StudyError(f"{path}:{fault.line}: {fault.what}")
    return document


def read_bounded(path: Path, limit: int, kind: str) -> bytes:
    """A file's bytes. Raises StudyError, before all is read, for more than ``limit`` of them.

    FileNotFoundError is left to the caller, who knows what would have written the file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)  # the size may change, and a pipe has none
            size = path.stat().st_size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from error
    if len(data) > limit:
        raise StudyError(f"{path}: {max(size, len(data))} bytes; {kind} has at most {limit}")
    return data

"""Values as they are written to JSON, and files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer


def write_whole(path: Path, text: str) -> None:
    """Put a text file at once, in UTF-8, newlines as they are in the text."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


DECIMALS = 9  # of every number: beyond it lies the order of summation

TextOrNull = Annotated[str, PlainSerializer(lambda text: text or None)]  # "" is null
Pairs = Annotated[tuple[tuple[str, str], ...], PlainSerializer(dict)]  # a mapping by first item


def plain_values(value: Any) -> Any:
    """JSON values: floats rounded to 9 decimals, tuples as lists, text enums as text."""
    if isinstance(value, dict):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0  # no negative zero
    return str(value) if isinstance(value, str) else value

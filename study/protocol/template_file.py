"""Template files, read from a folder or from our library."""

from __future__ import annotations

from pathlib import Path

from generators.templates.language import MAX_BYTES
from generators.templates.library import NAMES, library_text
from study.errors import StudyError
from study.protocol.yaml import read_bounded


def read_template(folder: Path, name: str) -> tuple[str, str]:
    """The file's name and text: of a path from the folder, or else of a name in the library.

    Raises StudyError where there is neither, or it is no text of a template's size.
    """
    path = folder / name
    if not path.is_file() and name in NAMES:
        return f"{name}.yml", library_text(name)
    try:
        return path.name, read_bounded(path, MAX_BYTES, "a template file").decode("utf-8")
    except FileNotFoundError as error:
        raise StudyError(
            f"{path}: {error.strerror}; give a template file, or one of the library: "
            f"{', '.join(library_names())}"
        ) from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text: {error.reason}") from None


def library_names() -> tuple[str, ...]:
    """The templates that come with us."""
    return tuple(sorted(NAMES))

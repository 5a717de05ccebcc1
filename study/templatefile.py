"""Template files, read from a folder or from our library."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from study.errors import StudyError

LIBRARY = "generators.templates.library"
MAX_BYTES = 4_000_000


def read_template(folder: Path, name: str) -> tuple[str, str]:
    """The file's name and text: of a path from the folder, or else of a name in the library.

    Raises StudyError where there is neither, or it is no text of a template's size.
    """
    path = folder / name
    if not path.is_file() and name in library_names():
        return f"{name}.yml", files(LIBRARY).joinpath(f"{name}.yml").read_text("utf-8")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        known = ", ".join(library_names())
        raise StudyError(
            f"{path}: {error.strerror}; give a template file, or one of the library: {known}"
        ) from None
    if len(data) > MAX_BYTES:
        raise StudyError(f"{path}: more than {MAX_BYTES:,} bytes, which no template has")
    try:
        return path.name, data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text: {error.reason}") from None


def library_names() -> tuple[str, ...]:
    """The templates that come with us."""
    found = (each.name for each in files(LIBRARY).iterdir())
    return tuple(sorted(name.removesuffix(".yml") for name in found if name.endswith(".yml")))

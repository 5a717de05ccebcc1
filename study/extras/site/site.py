"""A site from its studies to its folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from publish.release import draft_folder
from study.errors import StudyError
from study.extras.site.facts import read_study
from study.extras.site.pages import FORMAT, INDEX, build_site


def make_site(out: Path, places: Sequence[str]) -> int:
    """Write the site of some studies into a folder, and return the number of its files. Raises
    StudyError for a folder that holds something else, and whatever ``read_study`` raises; nothing
    is written then."""
    out = out.absolute()
    check_place(out)
    files = build_site([read_study(place) for place in places])
    write_site(out, files)
    return len(files)


def check_place(out: Path) -> None:
    """Raise StudyError unless a site may be written to a folder: a new or empty one, or an earlier
    site."""
    if not out.parent.is_dir():
        raise StudyError(f"{out}: no folder can be made there: {out.parent} is no folder")
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise StudyError(f"{out}: not a folder: give a new one")
    if out.is_dir() and any(out.iterdir()) and not _is_site(out):
        raise StudyError(f"{out}: holds something else than a site: give a new folder")


def _is_site(folder: Path) -> bool:
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(index, dict) and index.get("format") == FORMAT


def write_site(out: Path, files: Mapping[str, bytes]) -> None:
    """Put a site in its place whole. Raises StudyError for a file that would lie outside of it."""
    for name in files:
        if "//" in name or ".." in PurePosixPath(name).parts or "\0" in name:
            raise StudyError(f"{name!r}: no path inside of a site: a release lists it")
    with draft_folder(out) as draft:
        for name, data in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        replaced = out.with_name(f".{out.name}.replaced")
        if out.exists():
            os.rename(out, replaced)
        os.rename(draft, out)
        shutil.rmtree(replaced, ignore_errors=True)

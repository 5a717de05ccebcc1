"""``dosimeter tasks new``: a task family of one's own, as a package outside the repository."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from registry.provenance import PACKAGES
from study.errors import StudyError
from study.extras.tasks.parametr import add_original
from study.files import new_folder, write_file

_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
_TEMPLATE_NAME = "new_task"  # the template's own name


def new_task(name: str, out: Path, original: Path | None = None) -> int:
    """Write a family of this name into a new folder, a working example or one that runs a task
    folder of PARAMETR-Bench; the number of files.

    Raises StudyError for a name that no family may have, for a task folder of another form, and
    for a folder that is there already or cannot be written.
    """
    _check_name(name)
    texts = _templates("common", name) | _templates("parametr" if original else "example", name)
    if original:
        add_original(texts, f"src/{name}", original)
    with new_folder(out) as draft:
        for place, text in texts.items():
            write_file(draft / place, text)
    return len(texts)


def _templates(kind: str, name: str) -> dict[str, str]:
    """The files of a folder of templates by their places in the package."""
    folder, texts = Path(__file__).with_name("scaffold_template") / kind, {}
    for path in folder.rglob("*.txt"):
        place = path.relative_to(folder).as_posix().removesuffix(".txt")
        text = path.read_text(encoding="utf-8")
        texts[place.replace(_TEMPLATE_NAME, name)] = text.replace(_TEMPLATE_NAME, name)
    return texts


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise StudyError(f"{name!r}: give 3 to 61 small letters, digits and _, a letter first")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in PACKAGES:
        raise StudyError(f"{name!r} is taken by Python or by dosimeter: give another name")
    from generators.catalog import INSTALLED

    if name in {entry.split("@")[0] for entry in INSTALLED.entries()}:
        raise StudyError(f"there is a task family {name!r} already: give another name")

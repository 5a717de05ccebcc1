"""``dosimeter tasks new``: a task family of one's own, as a package outside the repository."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path

from registry.provenance import PACKAGES
from study.errors import StudyError
from study.files import new_folder, write_file

_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
_TEMPLATE_NAME = "new_task"  # the template's own name


def new_task(name: str, out: Path) -> int:
    """Write a working family of this name into a new folder; the number of files.

    Raises StudyError for a name that no family may have, and for a folder that is there already
    or cannot be written.
    """
    _check_name(name)
    template = files("study.extras.tasks.scaffold_template")
    places = {
        "pyproject.toml.txt": "pyproject.toml",
        "README.md.txt": "README.md",
        "test_new_task.py.txt": f"tests/test_{name}.py",
        "new_task.py": f"src/{name}/__init__.py",
        "solver.py": f"src/{name}/solver.py",
        "attackers.py": f"src/{name}/attackers.py",
    }
    with new_folder(out) as draft:
        for source, place in places.items():
            text = template.joinpath(source).read_text(encoding="utf-8")
            write_file(draft / place, text.replace(_TEMPLATE_NAME, name))
    return len(places)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise StudyError(
            f"{name!r} cannot name a task family: give 3 to 61 small letters, digits and "
            "underscores, a letter first, such as lucky_sums"
        )
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in PACKAGES:
        raise StudyError(f"{name!r} is taken by Python or by dosimeter: give another name")
    from generators.catalog import INSTALLED

    if name in {entry.split("@")[0] for entry in INSTALLED.entries()}:
        raise StudyError(f"there is a task family {name!r} already: give another name")

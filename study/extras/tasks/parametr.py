"""Brings a task folder of PARAMETR-Bench into a package: its files, criteria and prompt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from generators.task import DIFFICULTIES
from study.errors import StudyError

_FILES = ("generate.py", "config.json", "metarubrics.json", "prompt.md")
_DIMENSIONS = {"scie": "SR", "data": "DH", "imag": "IM", "inst": "IF"}  # by their first letters
_TAGS = re.compile(r"[<\[]/?(final_result)[>\]]|</?(answer)>")


def add_original(texts: dict[str, str], package: str, folder: Path) -> None:
    """Complete the files of a package: the original's four beside it, their criteria with stubs of
    checks, and the prompt without lines about tags. Raises StudyError for a folder of another
    form, OSError for a file that cannot be read."""
    original, read = dict[str, str](), dict[str, Any]()
    for file in _FILES:
        try:
            original[file] = (folder / file).read_bytes().decode()
            read[file] = json.loads(original[file]) if file.endswith(".json") else None
        except ValueError as error:
            raise StudyError(f"{folder / file}: {error}") from None
    if "self.seed" not in original["generate.py"]:
        raise StudyError(f"{folder}/generate.py: takes no seed: it must draw from self.seed")
    if len({tag.groups() for tag in _TAGS.finditer(original["prompt.md"])}) > 1:
        raise StudyError(f"{folder}/prompt.md: asks for <answer> and final_result tags: keep one")
    try:
        levels = {*read["config.json"]["difficulties"]}
        criteria = "".join(map(_as_python, read["metarubrics.json"]["metarubrics"]))
    except (LookupError, TypeError, AttributeError) as error:
        raise StudyError(f"{folder}: no task of PARAMETR-Bench's form: {error!r}") from None
    if levels != {*DIFFICULTIES}:
        raise StudyError(f"{folder}/config.json: its difficulties must be easy, medium and hard")
    module, prompt = f"{package}/__init__.py", f"{package}/prompt.md"
    texts[module] = texts[module].replace("= ()", f"= (\n{criteria})")
    lines = original["prompt.md"].splitlines(keepends=True)
    texts[prompt] = "".join(line for line in lines if not _TAGS.search(line)) + texts[prompt]
    texts |= {f"{package}/original/{file}": text for file, text in original.items()}


def _as_python(read: dict[str, Any]) -> str:
    """A metarubric as ours. One that has a table gets the stub of a check."""
    dimension = _DIMENSIONS[(read.get("dimension") or read["category"])[:4].lower()]
    parts = read["key"], dimension, read.get("weight", 1.0), read["description"]
    check = "None" if read["source"] == "none" else f"TODO, source={read['source']!r}"
    return f"    Metarubric({', '.join(map(repr, parts))}, {check}),\n"

"""The form of a template file's values: what was found wrong, and where."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from generators.errors import nearest
from generators.templates.language.template import Place
from generators.yaml_lines import YamlDocument, key_of

MOST_PROBLEMS = 200  # that are reported of one file
_ROOTS = (".", "{{artifacts}}", "artifacts")
_DRIVE = re.compile(r"[A-Za-z]:")
_INNERMOST = re.compile(r"\{\{[^{}]*\}\}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place of a template file."""

    line: int
    place: Place
    what: str

    @property
    def key(self) -> str:
        """The answer block that scores full marks."""
        return key_of(self.place)

    def text(self, path: str) -> str:
        """``file:line: key: what is wrong; what would be right``."""
        key = f"{self.key}: " if self.place else ""
        return f"{path}:{self.line}: {key}{self.what}"


def foremost(errors: Iterable[Problem]) -> tuple[Problem, ...]:
    """The errors by line; of very many the first, and how many there are beyond."""
    ordered = sorted(errors, key=lambda problem: problem.line)
    beyond = len(ordered) - MOST_PROBLEMS
    if beyond <= 0:
        return tuple(ordered)
    last = ordered[MOST_PROBLEMS]
    return (*ordered[:MOST_PROBLEMS], Problem(last.line, (), f"and {beyond} more errors"))


@dataclass(slots=True)
class Form:
    """One reading of a document: what was found wrong so far. Mutable."""

    document: YamlDocument
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def error(self, place: Place, what: str) -> None:
        """Add an error."""
        self.errors.append(Problem(self.document.line(place), place, what))

    def warn(self, place: Place, what: str) -> None:
        """Add a warning."""
        self.warnings.append(Problem(self.document.line(place), place, what))

    def known_keys(self, place: Place, value: Mapping[str, Any], known: Collection[str]) -> None:
        """Report keys that are unknown."""
        for key in value:
            if key not in known:
                self.error((*place, key), f"unknown key; {nearest(key, known)}")

    def mapping(self, place: Place, value: Any, known: Collection[str] = ()) -> dict[str, Any]:
        """The mapping at a place; an empty one, and an error, where there is something else."""
        if not isinstance(value, dict):
            self.error(place, f"a mapping is wanted, not {shown(value)}")
            return {}
        if known:
            self.known_keys(place, value, known)
        return value

    def text(
        self, place: Place, mapping: Mapping[str, Any], key: str, empty: bool = False
    ) -> str | None:
        """A key's text; None, and an error, where it is missing, empty, or no text."""
        if key not in mapping:
            self.error(place, f"the key {key!r} is missing")
            return None
        value = mapping[key]
        if not isinstance(value, str):
            quoted = isinstance(value, int | float)
            self.error(
                (*place, key),
                f"text is wanted, not {shown(value)}{'; put it in quotes' if quoted else ''}",
            )
            return None
        if not value.strip() and not empty:
            self.error((*place, key), "is empty")
            return None
        return value

    def paths(self, place: Place, value: Any) -> tuple[str, ...]:
        """The paths of a list; errors for all else in it."""
        if not isinstance(value, list) or not value:
            self.error(place, f"a list of at least one path is wanted, not {shown(value)}")
            return ()
        for index, path in enumerate(value):
            if isinstance(path, str):
                self.path((*place, index), path)
            else:
                self.error((*place, index), f"a path is wanted, not {shown(path)}")
        return tuple(path for path in value if isinstance(path, str))

    def path(self, place: Place, path: str, folder: bool = True) -> None:
        """Refuse what leads, or might lead on some system, out of the sandbox."""
        reason = refusal_of_path(path)
        if reason is None and not folder and path.rstrip().endswith(("/", "/.")):
            reason = "is a folder's path; a file's is wanted, without / at its end"
        if reason is None and not folder and posixpath.normpath(path.strip()) in _ROOTS:
            reason = (
                "is the sandbox's own folder; a file below it is wanted, as {{artifacts}}/a.txt"
            )
        if reason is not None:
            self.error(place, f"{shown(path)} {reason}")


def refusal_of_path(path: str) -> str | None:
    """Why a path may not stand in a template; None for one that may.

    A placeholder counts as a word: no pool or data type gives a value with ``..`` in it.
    """
    plain = path
    while (fewer := _INNERMOST.sub("x", plain)) != plain:
        plain = fewer
    if not path.strip():
        return "is empty; a path below {{artifacts}} is wanted"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in plain):
        return "holds a control character"
    if "\\" in plain:
        return "holds a backslash; write / between folders"
    if plain.startswith(("/", "~")) or _DRIVE.match(plain):
        return "is absolute; write it below {{artifacts}}/"
    if ".." in plain.split("/"):
        return "leads out of its folder: .. is not allowed"
    if len(plain) > 1000 or any(len(part.encode()) > 200 for part in plain.split("/")):
        return "is too long for a file system"
    return None


def shown(value: Any) -> str:
    """A value in an error, short."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"

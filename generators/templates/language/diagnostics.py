"""Values of a template file, read and checked, and the problems found in them by line.

``Form`` gathers problems by their line, as a file is read. The functions read what a component
holds; they raise TemplateError, which begins with the path of the key.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from generators.errors import TemplateError, near, nearest
from generators.yaml_lines import Place, YamlDocument, fault_of_form, key_of

MOST_PROBLEMS = 200  # that are reported of one file
_ROOTS = (".", "{{artifacts}}", "artifacts")
_DRIVE = re.compile(r"[A-Za-z]:")
_STEP = re.compile(r"\[([0-9]+)\]|([^.\[\]]+)")
_INNERMOST = re.compile(r"\{\{[^{}]*\}\}")
_LONGEST_PATH = 1000  # characters
# Characters that change the direction of the text that follows, by Unicode's Bidi_Control.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place of a template file."""

    line: int
    place: Place
    what: str
    file: str = ""  # other than the template: its values file

    @property
    def key(self) -> str:
        """The place as people write it."""
        return key_of(self.place)

    def text(self, path: str) -> str:
        """``file:line: key: what is wrong; what would be right``; line 0 is left out: there is no
        such file."""
        key = f"{self.key}: " if self.place else ""
        line = f":{self.line}" if self.line else ""
        return visible(f"{self.file or path}{line}: {key}{self.what}")


def foremost(errors: Iterable[Problem]) -> tuple[Problem, ...]:
    """The errors by line; of very many the first, and how many there are beyond."""
    ordered = sorted(errors, key=lambda problem: problem.line)
    beyond = len(ordered) - MOST_PROBLEMS
    if beyond <= 0:
        return tuple(ordered)
    last = ordered[MOST_PROBLEMS]
    return (*ordered[:MOST_PROBLEMS], Problem(last.line, (), f"and {beyond} more errors"))


class Fault(Exception):  # noqa: N818 - it is always caught
    """Something wrong at a place, which ends the reading of what it is part of."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(what)
        self.place = place


def wrong(place: Place, what: str) -> NoReturn:
    """Raises Fault."""
    raise Fault(place, what)


@dataclass(slots=True)
class Form:
    """One reading of a document, with the problems found so far. Mutable."""

    document: YamlDocument
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    missing: dict[Place, Problem] = field(default_factory=dict)  # by the place of a missing key
    misspelt: set[Place] = field(default_factory=set)  # places of keys that stand there otherwise

    def error(self, place: Place, what: str) -> None:
        """Add an error."""
        self.errors.append(Problem(self.document.line(place), place, what))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Adds the Fault that its block raises as an error."""
        try:
            yield
        except Fault as fault:
            self.error(fault.place, str(fault))

    def warn(self, place: Place, what: str) -> None:
        """Add a warning."""
        self.warnings.append(Problem(self.document.line(place), place, what))

    def lacks(self, place: Place, key: str, what: str = "") -> None:
        """Add an error about a missing key."""
        complaint = f"the key {key!r} is missing{what}"
        self.missing[*place, key] = Problem(self.document.line(place), place, complaint)

    def found(self) -> list[Problem]:
        """All errors: of a key that is misspelt, this, and not that it is missing too."""
        missing = [error for place, error in self.missing.items() if place not in self.misspelt]
        return [*self.errors, *missing]

    def known_keys(self, place: Place, value: Mapping[str, Any], known: Collection[str]) -> None:
        """Report keys that are unknown."""
        for key in value:
            if key in known:
                continue
            if len(self.errors) > MOST_PROBLEMS:  # of which the first are reported
                self.error((*place, key), "unknown key")
                continue
            if (alike := near(key, known)) is not None:
                self.misspelt.add((*place, alike))
            self.error((*place, key), fault_of_name(key) or f"unknown key; {nearest(key, known)}")

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
            self.lacks(place, key)
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
        if "\0" in value:
            self.error((*place, key), "holds a control character, NUL; leave it out")
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


def place_in(complaint: str, *roots: str) -> tuple[Place, str]:
    """The place that a complaint begins with, as in ``content.rows: …``, and the rest of it; no
    place if the first key is none of the roots."""
    path, colon, what = complaint.partition(": ")
    place = tuple(int(index) if index else key for index, key in _STEP.findall(path))
    return (place, what) if colon and place[:1] and place[0] in roots else ((), complaint)


def refusal_of_path(path: str) -> str | None:
    """Return why a template may not use a path; None if it may.

    A placeholder counts as a word: no pool or data type gives a value with ``..`` in it.
    """
    if len(path) > 10 * _LONGEST_PATH:
        return "is too long for a file system"
    plain = path
    while (fewer := _INNERMOST.sub("x", plain)) != plain:
        plain = fewer
    if not path.strip():
        return "is empty; a path below {{artifacts}} is wanted"
    if (fault := fault_of_name(plain)) is not None:
        return fault
    if "\\" in plain:
        return "holds a backslash; write / between folders"
    if plain.startswith(("/", "~")) or _DRIVE.match(plain):
        return "is absolute; write it below {{artifacts}}/"
    if ".." in plain.split("/"):
        return "leads out of its folder: .. is not allowed"
    if len(plain) > _LONGEST_PATH or any(len(part.encode()) > 200 for part in plain.split("/")):
        return "is too long for a file system"
    return None


def fault_of_name(name: str) -> str | None:
    """Return why a text may be no part of a path, key or other name; None if it may."""
    if name.isprintable():
        return None
    for letter in name:
        if letter in _BIDI:
            return f"holds U+{ord(letter):04X}, which changes the direction of text; leave it out"
        if ord(letter) < 32 or ord(letter) == 127:
            return "holds a control character; leave it out"
    return None


def visible(text: str) -> str:
    """The text on one line, with escapes for characters that would not be seen."""
    if text.isprintable():
        return text
    letters = (x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)
    return "".join(letters)


def shown(value: Any) -> str:
    """A value in an error, short."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, int) and value.bit_length() > 100:
        return "a number of many digits"
    text = getattr(value, "written", None) or repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


MOST_VALUES = 1_000_000
MOST_BYTES = 64 << 20


def refuse(path: str, complaint: str) -> NoReturn:
    """Raises TemplateError about the key at a path."""
    raise TemplateError(f"{path}: {complaint}")


def gathered(readings: Iterable[Callable[[], Any]]) -> list[Any]:
    """What all readings return. Raises one TemplateError with the complaints of those that raise
    one, so that a template's author meets all of them at once; of very many the first."""
    made, complaints = [], list[str]()
    for read in readings:
        try:
            made.append(read())
        except TemplateError as error:
            complaints.append(str(error))
        if len(complaints) > MOST_PROBLEMS:
            break
    refuse_all(complaints)
    return made


def refuse_all(complaints: Sequence[str]) -> None:
    """Raises one TemplateError with a line for each complaint, if there are any."""
    if complaints:
        raise TemplateError("\n".join(complaints))


def mapping(path: str, value: Any, known: Iterable[str] | None = None) -> Mapping[str, Any]:
    """A mapping with text keys, none but the known ones (any where None is given)."""
    if not isinstance(value, Mapping):
        refuse(path, f"a mapping is wanted, not {shown(value)}")
    names = None if known is None else tuple(known)
    complaints = []
    for key in value:
        if not isinstance(key, str):
            complaints.append(f"{path}: the key {shown(key)} is not text; put it in quotes")
        elif names is not None and key not in names:
            complaints.append(f"{path}.{key}: unknown key; {nearest(key, names)}")
    refuse_all(complaints[: MOST_PROBLEMS + 1])
    return value


def sequence(path: str, value: Any) -> Sequence[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        refuse(path, f"a list is wanted, not {shown(value)}")
    return value


def line(path: str, value: Any) -> str:
    """Text, not empty."""
    if (fault := fault_of_form(value)) is not None:
        refuse(path, f"{shown(value)} {fault}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        refuse(path, f"a text is wanted, not {shown(value)}")
    return writable(path, value)


def writable(path: str, value: str) -> str:
    """Text that UTF-8 can hold."""
    if any(0xD800 <= ord(character) < 0xE000 for character in value):
        refuse(path, "half a character (a lone surrogate)")
    return value


def whole(path: str, value: Any, least: int = 0) -> int:
    """A whole number not below ``least``; digits in quotes count, for placeholders leave them."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(path, f"a whole number is wanted, not {shown(value)}")
    if value < least:
        refuse(path, f"{value} is too small; at least {least} is wanted")
    return value


def number(path: str, value: Any) -> float:
    """A finite number; one in quotes counts."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 40 else None
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        refuse(path, f"a number is wanted, not {shown(value)}")
    if not math.isfinite(value):
        refuse(path, "a finite number is wanted")
    return float(value)


def span(path: str, value: Any, least: int = 0) -> tuple[int, int]:
    """``7`` or ``[5, 9]``: the least and the greatest of a count."""
    if not isinstance(value, list | tuple):
        count = whole(path, value, least)
        return count, count
    if len(value) != 2:
        refuse(path, f"a whole number or [least, greatest] is wanted, not {len(value)} values")
    low, high = whole(f"{path}[0]", value[0], least), whole(f"{path}[1]", value[1], least)
    if high < low:
        refuse(path, f"[{low}, {high}] is empty; write [{high}, {low}]")
    return low, high


def check_size(path: str, values: int, size: int) -> None:
    """Raises TemplateError if a component may grow past what memory should hold."""
    if values > MOST_VALUES:
        refuse(path, f"up to {_count(values)} values; at most {MOST_VALUES:,} are allowed")
    if size > MOST_BYTES:
        refuse(path, f"up to {_count(size)} bytes; at most {MOST_BYTES:,} are allowed")


def _count(value: int) -> str:
    return f"{value:,}" if value.bit_length() < 60 else f"2^{value.bit_length() - 1}"

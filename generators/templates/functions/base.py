"""Functions of the answer key, and the files that they read."""

from __future__ import annotations

import operator
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from generators.errors import TemplateError, TemplateLimitError

# Comparisons of filters: of numbers if both are numbers, else of texts.
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
WORDS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, value: value in text,
    "startswith": str.startswith,
    "endswith": str.endswith,
}


Kind = Literal["path", "filter", "range", "literal", "number", "added", "tie", "untouched"]


@dataclass(frozen=True, slots=True)
class Match:
    """What one part of a call met in one file.

    A ``path`` leads to values, a ``filter`` passes them, a ``range`` is a filter by order, a
    ``literal`` equals them, a ``number`` is what they are added up as, an ``added`` key is one that
    an edit adds where nothing is met. Two more say what is amiss if they are met at all: a ``tie``
    is an answer that another order of equal rows would change, ``untouched`` a file that is right
    without an edit.
    """

    kind: Kind
    part: str  # as written
    met: int  # values that it leads to, passes or equals
    of: int  # values that it was tried on
    sought: str = ""  # the name or the literal in it
    known: tuple[str, ...] = ()  # where it meets nothing: what stands there; of a range, its ends
    remedy: str = ""  # what would be right, where it is known


@dataclass(frozen=True, slots=True)
class Function:
    """A function by name: how many arguments it takes, and how it is computed.

    The counts leave the file out, which stands last where ``takes_file``. With ``rest`` the
    free-text argument may hold ``:``; where it may be several, ``split`` parts them. ``compute``
    gets the arguments as texts and the file; it raises TemplateError with the bare reason, to
    which ``call_function`` adds the call.
    ``check`` raises likewise for arguments that no file could make right (a path or an operator
    that is none); it never sees a file. ``matches`` says what the parts of a call meet in a file,
    the same parts in the same order for every file.
    """

    name: str
    min_arguments: int
    max_arguments: int
    compute: Callable[[Sequence[str], Any], str]
    check: Callable[[Sequence[str]], object] | None = None
    takes_file: bool = True
    rest: bool = False
    split: Callable[[str], list[str]] | None = None
    matches: Callable[[Sequence[str], Any], Iterator[Match]] | None = None


def table_of(*functions: Function) -> dict[str, Function]:
    """The functions by name."""
    return {function.name: function for function in functions}


# --- Two paths in one free text: where the first ends ---

QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_DEPTHS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}


def mask_quoted(text: str) -> str:
    """The text with what is in quotes blotted out, of the same length."""
    return QUOTED.sub(lambda quoted: "'" + "\0" * (len(quoted[0]) - 2) + "'", text)


def closing_bracket(masked: str, start: int) -> int:
    """Find the close of the [ that opens here, others within let be; -1 if there is none."""
    depth = 0
    for at in range(start, len(masked)):
        depth += {"[": 1, "]": -1}.get(masked[at], 0)
        if depth == 0:
            return at
    return -1


def quote_name(name: str) -> str:
    """A name as SQL takes any."""
    return '"' + name.replace('"', '""') + '"'


def parts_paths(starts: str) -> Callable[[str], list[str]]:
    """Return a splitter of a text into its paths, all but the first beginning with ``starts``."""

    def part(text: str) -> list[str]:
        masked = mask_quoted(text)
        parts, start, depth = [], 0, 0
        for at, letter in enumerate(masked):
            depth += _DEPTHS.get(letter, 0)
            if letter == ":" and depth == 0 and _begins(text[at + 1 :], starts):
                parts.append(text[start:at])
                start = at + 1
        return [*parts, text[start:]]

    return part


def _begins(text: str, starts: str) -> bool:
    plain = text.lstrip()
    return plain.lstrip("'\"")[:1] in tuple(starts)


MAX_BYTES = 16_000_000
T = TypeVar("T")


class OpenFile:
    """The bytes at a path, and the results of parsers, each of which reads them once.

    Parsers raise TemplateError for bytes of another format, and for more than MAX_BYTES. Resources
    that they open are closed by ``close``.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self._parsed: dict[Any, Any] = {}

    @cached_property
    def text(self) -> str:
        """UTF-8, a byte order mark left out, line ends as they are."""
        self.check_size(MAX_BYTES)
        try:
            if not self.data.startswith(BOM_UTF8):
                return self.data.decode()
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TemplateError(f"the file is not UTF-8 text (byte {error.start})") from None

    @cached_property
    def lines(self) -> list[str]:
        """Its lines without their ends; text after the last line end is a line if not empty."""
        text = self.text
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return lines

    @cached_property
    def words(self) -> list[str]:
        """Words of the text, as white space separates them."""
        return self.text.split()

    def parsed(self, parse: Callable[[OpenFile], T]) -> T:
        """The file as a parser reads it; each parser reads it once. Raises the parser's errors."""
        if parse not in self._parsed:
            self._parsed[parse] = parse(self)
        made: T = self._parsed[parse]
        return made

    def check_size(self, most: int) -> None:
        """Raise TemplateLimitError if there are more bytes than that."""
        if len(self.data) > most:
            raise TemplateLimitError(
                f"the file has {len(self.data)} bytes; at most {most} are read"
            )

    def close(self) -> None:
        """Close what parsers opened, such as a database. May be called again."""
        while self._parsed:
            _, value = self._parsed.popitem()
            if hasattr(value, "close"):
                value.close()

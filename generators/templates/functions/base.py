"""What a function of the answer key is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from generators.templates.functions.parsed_file import OpenFile


Compute = Callable[[Sequence[str], "OpenFile"], str]


@dataclass(frozen=True, slots=True)
class Function:
    """A function by name: how many arguments it takes, and how it is computed.

    The counts leave the file out, which stands last where ``takes_file``. With ``rest`` the
    free-text argument may hold ``:``; where it may be several, ``split`` parts them. ``compute``
    gets the arguments as texts and the file; it raises TemplateError with the bare reason, to
    which ``call_function`` adds the call.
    ``check`` raises likewise for arguments that no file could make right (a path or an operator
    that is none); it never sees a file.
    """

    name: str
    min_arguments: int
    max_arguments: int
    takes_file: bool
    rest: bool
    compute: Callable[[Sequence[str], Any], str]
    check: Callable[[Sequence[str]], object] | None = None
    split: Callable[[str], list[str]] | None = None


def table_of(*functions: Function) -> dict[str, Function]:
    """The functions by name."""
    return {function.name: function for function in functions}


# --- Two paths in one free text: where the first ends ---

_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_DEPTHS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}


def parts_paths(starts: str) -> Callable[[str], list[str]]:
    """What parts a text into the paths in it, of which all but the first begin with ``starts``."""

    def part(text: str) -> list[str]:
        masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
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

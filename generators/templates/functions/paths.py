"""Two paths in one free text: where the first ends.

Paths may hold ``:`` themselves (a namespace's prefix, a key, a time in a filter), so not every
colon parts two. One does that stands outside brackets and quotes and is followed by what starts
a path and nothing else: ``$`` in JSON and YAML, ``.``, ``/`` or ``@`` in XPath.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_DEPTHS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}


def parts_paths(starts: str) -> Callable[[str], list[str]]:
    """What parts a text into the paths in it, of which all but the first begin with ``starts``."""

    def part(text: str) -> list[str]:
        masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
        found, start, depth = [], 0, 0
        for at, letter in enumerate(masked):
            depth += _DEPTHS.get(letter, 0)
            if letter == ":" and depth == 0 and _begins(text[at + 1 :], starts):
                found.append(text[start:at])
                start = at + 1
        return [*found, text[start:]]

    return part


def _begins(text: str, starts: str) -> bool:
    plain = text.lstrip()
    return plain.lstrip("'\"")[:1] in tuple(starts)

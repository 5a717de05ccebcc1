"""A set of paths drawn as a tree, as ``{{expected_structure}}`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

_Folder = dict[str, Any]  # what is in it, by name; a file holds nothing
_EMPTY = ""  # the name of nothing, which says that what holds it is a folder


def draw_tree(paths: Sequence[str]) -> str:
    """The paths as a fenced tree; a path that ends in ``/`` is a folder.

    Folders that all paths share are left out, since the question names them.
    """
    held = [[part for part in path.split("/") if part] for path in paths]
    above = zip(*(parts[:-1] for parts in held), strict=False)
    shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, above))
    top: _Folder = {}
    for path, parts in zip(paths, held, strict=True):
        inner = top
        for part in parts[shared:]:
            inner = inner.setdefault(part, {})
        if path.endswith("/"):
            inner[_EMPTY] = {}
    return "\n".join(["", "```", *_lines(top), "```"])


def _lines(top: _Folder) -> Iterator[str]:
    """Each folder before what it holds, siblings in the order that they were named."""
    rest = [iter(top.items())]  # not by recursion: a path may have any length
    while rest:
        for name, inner in rest[-1]:
            if name != _EMPTY:
                yield f"{'    ' * (len(rest) - 1)}{name}{'/' if inner else ''}"
                rest.append(iter(inner.items()))
                break
        else:
            rest.pop()

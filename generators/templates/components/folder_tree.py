"""``create_tree``: folders within folders, with files of filler in each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from generators.stream import Stream
from generators.templates.components import text_files as lorem
from generators.templates.language import (
    POOLS,
    MadeFile,
    check_size,
    indices,
    mapping,
    refuse,
    span,
    whole,
)

DEFAULT_DEPTH, DEFAULT_BREADTH, DEFAULT_FILES = 2, 2, [1, 2]
DEEPEST = 16  # so that no path grows too long for a file system
ENDINGS = ("txt", "md", "log", "dat", "cfg", "bak")
MOST_LINES = 4  # of a file
_WORDS = POOLS["default"]


@dataclass(frozen=True, slots=True)
class Tree:
    """``depth`` levels of folders below the target, each folder with so many in it, and files."""

    depth: int
    breadth: tuple[int, int]
    files: tuple[int, int]
    log10_space: float

    def make(self, stream: Stream, target: str) -> tuple[MadeFile, ...]:
        """The files of the tree below the target."""
        return tuple(self._folder(stream, target.rstrip("/"), self.depth))

    def _folder(self, stream: Stream, path: str, depth: int) -> Iterator[MadeFile]:
        units = stream.uniforms(2 + self.breadth[1] + 2 * self.files[1])
        folders = _between(units[0], self.breadth) if depth else 0
        files = _between(units[1], self.files)
        names = _distinct(units[2 : 2 + folders + files])
        kinds = indices(units[2 + folders + files :], len(ENDINGS))
        for name, kind in zip(names[folders:], kinds, strict=False):
            text = lorem.sentences(stream, stream.integer(1, MOST_LINES))
            yield MadeFile(f"{path}/{name}.{ENDINGS[kind]}", text.encode())
        for name in names[:folders]:
            yield from self._folder(stream, f"{path}/{name}", depth - 1)


def _between(unit: float, bounds: tuple[int, int]) -> int:
    return bounds[0] + int(unit * (bounds[1] - bounds[0] + 1))


def _distinct(units: Any) -> list[str]:
    """As many words, each of another kind (the start of Fisher and Yates)."""
    words = list(_WORDS)
    for place, unit in enumerate(units.tolist()):
        other = place + int(unit * (len(words) - place))
        words[place], words[other] = words[other], words[place]
    return words[: len(units)]


def compile_tree(content: Mapping[str, Any]) -> Tree:
    """The tree that a component's ``content`` describes. Raises TemplateError.

    ``depth`` levels of ``breadth`` folders each, with ``files`` in every folder, the top one too;
    the last two are numbers or [least, greatest]. A folder stands in the sandbox by what is in it,
    so every folder holds a file.
    """
    mapping("content", content, ("depth", "breadth", "files"))
    depth = whole("content.depth", content.get("depth", DEFAULT_DEPTH))
    if depth > DEEPEST:
        refuse("content.depth", f"{depth} levels; at most {DEEPEST} are allowed")
    breadth = span("content.breadth", content.get("breadth", DEFAULT_BREADTH), 1)
    files = span("content.files", content.get("files", DEFAULT_FILES), 1)
    if breadth[1] + files[1] > len(_WORDS):
        refuse("content.breadth", f"more than {len(_WORDS)} names in a folder")
    folders = sum(breadth[1] ** level for level in range(depth + 1))
    words = MOST_LINES * lorem.MOST_WORDS
    size = MOST_LINES * (lorem.LONGEST_SENTENCE + 1) + 200
    check_size("content.depth", folders * files[1] * words, folders * files[1] * size)
    return Tree(depth, breadth, files, folders * _log10_folder(breadth[1], files[1]))


def _log10_folder(folders: int, files: int) -> float:
    """Of a folder's names, endings and texts, at its fullest."""
    names = sum(math.log10(len(_WORDS) - taken) for taken in range(folders + files))
    text = MOST_LINES * lorem.LOG10_SENTENCE
    return names + files * (math.log10(len(ENDINGS)) + text)


# --- A set of paths drawn as a tree, as ``{{expected_structure}}`` shows it ---

_Folder = dict[str, Any]  # what is in it, by name; a file holds nothing
_EMPTY = ""  # the name of nothing, which says that what holds it is a folder


def draw_tree(paths: Sequence[str]) -> str:
    """The paths as a fenced tree; a path that ends in ``/`` is a folder.

    Folders that all paths share are left out, since the question names them.
    """
    split_paths = [[part for part in path.split("/") if part] for path in paths]
    above = zip(*(parts[:-1] for parts in split_paths), strict=False)
    shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, above))
    top: _Folder = {}
    for path, parts in zip(paths, split_paths, strict=True):
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

"""Files of filler: ``create_files``, a text file of filler or of one's own words with filler
between, and ``create_tree``, folders within folders."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from generators.errors import nearest
from generators.stream import Stream
from generators.templates.language.data_types import LATIN, POOLS, indices, lookup, taken
from generators.templates.language.diagnostics import (
    check_size,
    mapping,
    refuse,
    span,
    whole,
    writable,
)
from generators.templates.language.keys import CONTENT_KEYS, TEXT_KINDS
from generators.templates.language.template import MadeFile

LEAST_WORDS, MOST_WORDS = 8, 15  # of a sentence
LEAST_SENTENCES, MOST_SENTENCES = 4, 8  # of a paragraph
LONGEST_WORD = max(map(len, LATIN))
LONGEST_SENTENCE = MOST_WORDS * (LONGEST_WORD + 1)

LOG10_WORD = math.log10(len(LATIN))
LOG10_SENTENCE = math.log10(
    sum(len(LATIN) ** count for count in range(LEAST_WORDS, MOST_WORDS + 1))
)
LOG10_PARAGRAPH = MOST_SENTENCES * LOG10_SENTENCE  # those of fewer sentences do not show beside it


LINE_END, SPACE, PARAGRAPH_END = "\n", " ", "\n\n"
_ENDS = (LINE_END, SPACE, PARAGRAPH_END)


@cache
def _words() -> Any:
    return lookup(LATIN)


@cache
def _pieces() -> Any:
    """Each word as it stands within a sentence, at its start, and before each kind of end."""
    within = [f"{word} " for word in LATIN]
    first = [f"{word.capitalize()} " for word in LATIN]
    return lookup((*within, *first, *(f"{word}.{end}" for end in _ENDS for word in LATIN)))


def words(stream: Stream, count: int) -> list[str]:
    """``count`` words, each any of the list."""
    return taken(_words, (stream.uniforms(count) * len(LATIN)).astype("int64"))


def sentences(stream: Stream, count: int, end: str = LINE_END) -> str:
    """``count`` sentences of 8 to 15 words with a capital and a full stop, an end after each."""
    return _written(stream, count, None, end)


def paragraphs(stream: Stream, count: int) -> str:
    """``count`` paragraphs of 4 to 8 sentences, an empty line after each."""
    lasts = _between(stream, count, LEAST_SENTENCES, MOST_SENTENCES).cumsum() - 1
    return _written(stream, int(lasts[-1]) + 1 if count else 0, lasts, SPACE)


def _written(stream: Stream, count: int, lasts: Any, end: str) -> str:
    """Sentences, drawn and joined all at once; those of ``lasts`` end their paragraphs."""
    if not count:
        return ""
    after = _between(stream, count, LEAST_WORDS, MOST_WORDS).cumsum()
    size = len(LATIN)
    drawn = (stream.uniforms(int(after[-1])) * size).astype("int64")
    drawn[0] += size
    drawn[after[:-1]] += size
    drawn[after - 1] += size * (2 + _ENDS.index(end))
    if lasts is not None:
        drawn[after[lasts] - 1] += size * (_ENDS.index(PARAGRAPH_END) - _ENDS.index(end))
    return "".join(taken(_pieces, drawn))


def _between(stream: Stream, count: int, least: int, most: int) -> Any:
    return (stream.uniforms(count) * (most - least + 1)).astype("int64") + least


DEFAULT_KIND, DEFAULT_COUNT = "lorem_lines", 10


@dataclass(frozen=True, slots=True)
class Filler:
    """A measure of filler text."""

    write: Callable[[Stream, int], str]
    log10: float  # of one unit
    words: int  # of one unit, at most
    size: int  # bytes of one unit, at most


def _of_sentences(end: str) -> Filler:
    def write(stream: Stream, count: int) -> str:
        return sentences(stream, count, end)[:-1]

    return Filler(write, LOG10_SENTENCE, MOST_WORDS, LONGEST_SENTENCE + 1)


KINDS: Mapping[str, Filler] = {
    "lorem_lines": _of_sentences(LINE_END),
    "lorem_sentences": _of_sentences(SPACE),
    "lorem_paragraphs": Filler(
        lambda stream, count: paragraphs(stream, count)[:-2],
        LOG10_PARAGRAPH,
        MOST_WORDS * MOST_SENTENCES,
        (LONGEST_SENTENCE + 1) * MOST_SENTENCES + 2,
    ),
    "lorem_words": Filler(
        lambda stream, count: " ".join(words(stream, count)), LOG10_WORD, 1, LONGEST_WORD + 1
    ),
}
_LETTERS = {name[len("lorem_")]: filler for name, filler in KINDS.items()}
_PLACEHOLDER = re.compile(r"\{\{\s*lorem\s*:([^{}]*)\}\}")
_MEASURE = re.compile(r"\s*([0-9]{1,9})([lsp])\s*")


@dataclass(frozen=True, slots=True)
class TextFile:
    """Parts of fixed text, each followed by a number of units of filler."""

    parts: tuple[tuple[str, Filler, int], ...]
    end: str
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        """The bytes of the file."""
        written = [before + filler.write(stream, count) for before, filler, count in self.parts]
        return ("".join(written) + self.end).encode()


def compile_files(content: Mapping[str, Any]) -> TextFile:
    """The text file that a component's ``content`` describes. Raises TemplateError.

    Filler without text of one's own ends in a newline, as text files do; custom content ends as
    it is written.
    """
    kind = content.get("type", DEFAULT_KIND)
    if kind == "custom":
        mapping("content", content, ("type", "content"))
        return _custom(content.get("content"))
    if not isinstance(kind, str) or kind not in KINDS:
        refuse("content.type", f"unknown kind {kind!r}; {nearest(str(kind), TEXT_KINDS)}")
    mapping("content", content, ("type", "count"))
    count = whole("content.count", content.get("count", DEFAULT_COUNT))
    return _compiled("content.count", (("", KINDS[kind], count),), "\n" if count else "")


def _custom(written: Any) -> TextFile:
    if not isinstance(written, str):
        refuse("content.content", "the text of custom content is missing")
    writable("content.content", written)
    parts, start = [], 0
    for match in _PLACEHOLDER.finditer(written):
        if (measure := _MEASURE.fullmatch(match[1])) is None:
            refuse(
                "content.content",
                f"{match[0]}: a number and l, s or p (lines, sentences, paragraphs) are wanted, "
                "as in {{lorem:20l}}",
            )
        parts.append((written[start : match.start()], _LETTERS[measure[2]], int(measure[1])))
        start = match.end()
    return _compiled("content.content", tuple(parts), written[start:])


def _compiled(path: str, parts: tuple[tuple[str, Filler, int], ...], end: str) -> TextFile:
    values = sum(filler.words * count for _, filler, count in parts)
    fixed = sum(len(before.encode()) for before, _, _ in parts) + len(end.encode())
    check_size(path, values, fixed + sum(filler.size * count for _, filler, count in parts))
    return TextFile(parts, end, sum(filler.log10 * count for _, filler, count in parts))


# --- ``create_tree``: folders within folders, with files of filler in each ---

_WORDS = POOLS["default"]
DEFAULT_DEPTH, DEFAULT_BREADTH, DEFAULT_FILES = 2, 2, [1, 2]
DEEPEST = 16  # so that no path grows too long for a file system
ENDINGS = ("txt", "md", "log", "dat", "cfg", "bak")
_MOST_FILE_LINES = 4  # of a file


@dataclass(frozen=True, slots=True)
class Tree:
    """``depth`` levels of folders below the target; ranges of folders and files in each folder."""

    depth: int
    breadth: tuple[int, int]
    files: tuple[int, int]
    log10_space: float

    def make(self, stream: Stream, target: str) -> tuple[MadeFile, ...]:
        """The files of the tree below the target."""
        return tuple(self._folder(stream, target.rstrip("/"), self.depth))

    def _folder(self, stream: Stream, path: str, depth: int) -> Iterator[MadeFile]:
        units = stream.uniforms(2 + self.breadth[1] + 2 * self.files[1])
        folders = _count_within(units[0], self.breadth) if depth else 0
        files = _count_within(units[1], self.files)
        names = _distinct(units[2 : 2 + folders + files])
        kinds = indices(units[2 + folders + files :], len(ENDINGS))
        for name, kind in zip(names[folders:], kinds, strict=False):
            text = sentences(stream, stream.integer(1, _MOST_FILE_LINES))
            yield MadeFile(f"{path}/{name}.{ENDINGS[kind]}", text.encode())
        for name in names[:folders]:
            yield from self._folder(stream, f"{path}/{name}", depth - 1)


def _count_within(unit: float, bounds: tuple[int, int]) -> int:
    return bounds[0] + int(unit * (bounds[1] - bounds[0] + 1))


def _distinct(units: Any) -> list[str]:
    """One word for each unit, no two alike (the start of Fisher and Yates)."""
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
    mapping("content", content, CONTENT_KEYS["create_tree"])
    depth = whole("content.depth", content.get("depth", DEFAULT_DEPTH))
    if depth > DEEPEST:
        refuse("content.depth", f"{depth} levels; at most {DEEPEST} are allowed")
    breadth = span("content.breadth", content.get("breadth", DEFAULT_BREADTH), 1)
    files = span("content.files", content.get("files", DEFAULT_FILES), 1)
    if breadth[1] + files[1] > len(_WORDS):
        refuse("content.breadth", f"more than {len(_WORDS)} names in a folder")
    folders = sum(breadth[1] ** level for level in range(depth + 1))
    words = _MOST_FILE_LINES * MOST_WORDS
    size = _MOST_FILE_LINES * (LONGEST_SENTENCE + 1) + 200
    check_size("content.depth", folders * files[1] * words, folders * files[1] * size)
    return Tree(depth, breadth, files, folders * _log10_folder(breadth[1], files[1]))


def _log10_folder(folders: int, files: int) -> float:
    """Of a folder's names, endings and texts, at its fullest."""
    names = sum(math.log10(len(_WORDS) - taken) for taken in range(folders + files))
    text = _MOST_FILE_LINES * LOG10_SENTENCE
    return names + files * (math.log10(len(ENDINGS)) + text)


# --- A set of paths drawn as a tree, as ``{{expected_structure}}`` shows it ---

_Folder = dict[str, Any]  # its content, by name; a file is empty
_EMPTY = ""  # name of an empty entry, which marks its parent as a folder


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

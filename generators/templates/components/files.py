"""``create_files``: a text file of filler, or of one's own words with filler between."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import nearest
from generators.stream import Stream
from generators.templates.components import lorem
from generators.templates.components.fields import check_size, mapping, refuse, whole, writable

DEFAULT_KIND, DEFAULT_COUNT = "lorem_lines", 10


@dataclass(frozen=True, slots=True)
class Filler:
    """A measure of filler text."""

    write: Callable[[Stream, int], str]
    log10: float  # of one unit
    words: int  # of one unit, at most
    size: int  # bytes of one unit, at most


_SENTENCES_A_PARAGRAPH = lorem.MOST_SENTENCES

LINES = Filler(
    lambda stream, count: lorem.sentences(stream, count, "\n")[:-1],
    lorem.LOG10_SENTENCE,
    lorem.MOST_WORDS,
    lorem.LONGEST_SENTENCE + 1,
)
SENTENCES = Filler(
    lambda stream, count: lorem.sentences(stream, count, " ")[:-1],
    lorem.LOG10_SENTENCE,
    lorem.MOST_WORDS,
    lorem.LONGEST_SENTENCE + 1,
)
PARAGRAPHS = Filler(
    lambda stream, count: lorem.paragraphs(stream, count)[:-2],
    lorem.LOG10_PARAGRAPH,
    lorem.MOST_WORDS * _SENTENCES_A_PARAGRAPH,
    (lorem.LONGEST_SENTENCE + 1) * _SENTENCES_A_PARAGRAPH + 2,
)
WORDS = Filler(
    lambda stream, count: " ".join(lorem.words(stream, count)),
    lorem.LOG10_WORD,
    1,
    lorem.LONGEST_WORD + 1,
)

KINDS: Mapping[str, Filler] = {
    "lorem_lines": LINES,
    "lorem_sentences": SENTENCES,
    "lorem_paragraphs": PARAGRAPHS,
    "lorem_words": WORDS,
}
_LETTERS = {"l": LINES, "s": SENTENCES, "p": PARAGRAPHS}
_PLACEHOLDER = re.compile(r"\{\{\s*lorem\s*:([^{}]*)\}\}")
_MEASURE = re.compile(r"\s*([0-9]{1,9})([lsp])\s*")


@dataclass(frozen=True, slots=True)
class TextFile:
    """Text that stands as it is, and so many units of filler after it, over and over."""

    parts: tuple[tuple[str, Filler, int], ...]
    end: str
    log10_space: float

    def content(self, stream: Stream) -> bytes:
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
        refuse("content.type", f"unknown kind {kind!r}; {nearest(str(kind), (*KINDS, 'custom'))}")
    mapping("content", content, ("type", "count"))
    count = whole("content.count", content.get("count", DEFAULT_COUNT))
    return _compiled("content.count", (("", KINDS[kind], count),), "\n" if count else "")


def _custom(written: Any) -> TextFile:
    if not isinstance(written, str):
        refuse("content.content", "the text of custom content is missing")
    writable("content.content", written)
    parts, start = [], 0
    for found in _PLACEHOLDER.finditer(written):
        if (measure := _MEASURE.fullmatch(found[1])) is None:
            refuse(
                "content.content",
                f"{found[0]}: a number and l, s or p (lines, sentences, paragraphs) are wanted, "
                "as in {{lorem:20l}}",
            )
        parts.append((written[start : found.start()], _LETTERS[measure[2]], int(measure[1])))
        start = found.end()
    return _compiled("content.content", tuple(parts), written[start:])


def _compiled(path: str, parts: tuple[tuple[str, Filler, int], ...], end: str) -> TextFile:
    values = sum(filler.words * count for _, filler, count in parts)
    own = sum(len(before.encode()) for before, _, _ in parts) + len(end.encode())
    check_size(path, values, own + sum(filler.size * count for _, filler, count in parts))
    return TextFile(parts, end, sum(filler.log10 * count for _, filler, count in parts))

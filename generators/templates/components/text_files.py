"""``create_files``: a text file of filler, or of one's own words with filler between."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from generators.errors import nearest
from generators.stream import Stream
from generators.templates.language import (
    LATIN,
    check_size,
    lookup,
    mapping,
    refuse,
    whole,
    writable,
)

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
    drawn: list[str] = _words().take((stream.uniforms(count) * len(LATIN)).astype("int64")).tolist()
    return drawn


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
    return "".join(_pieces().take(drawn).tolist())


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


_SENTENCES_A_PARAGRAPH = MOST_SENTENCES

LINES = Filler(
    lambda stream, count: sentences(stream, count, "\n")[:-1],
    LOG10_SENTENCE,
    MOST_WORDS,
    LONGEST_SENTENCE + 1,
)
SENTENCES = Filler(
    lambda stream, count: sentences(stream, count, " ")[:-1],
    LOG10_SENTENCE,
    MOST_WORDS,
    LONGEST_SENTENCE + 1,
)
PARAGRAPHS = Filler(
    lambda stream, count: paragraphs(stream, count)[:-2],
    LOG10_PARAGRAPH,
    MOST_WORDS * _SENTENCES_A_PARAGRAPH,
    (LONGEST_SENTENCE + 1) * _SENTENCES_A_PARAGRAPH + 2,
)
WORDS = Filler(
    lambda stream, count: " ".join(words(stream, count)),
    LOG10_WORD,
    1,
    LONGEST_WORD + 1,
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
        refuse("content.type", f"unknown kind {kind!r}; {nearest(str(kind), (*KINDS, 'custom'))}")
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

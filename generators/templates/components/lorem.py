"""Filler text: Latin words in sentences, lines and paragraphs."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from generators.stream import Stream
from generators.templates.datatypes import lookup
from generators.templates.pools import LATIN

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
    found: list[str] = _words().take((stream.uniforms(count) * len(LATIN)).astype("int64")).tolist()
    return found


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

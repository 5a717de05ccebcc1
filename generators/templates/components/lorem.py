"""Filler text: Latin words in sentences, lines and paragraphs."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

from generators.stream import Stream
from generators.templates.datatypes import indices
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


def words(stream: Stream, count: int) -> list[str]:
    """``count`` words, each any of the list."""
    return list(map(LATIN.__getitem__, indices(stream.uniforms(count), len(LATIN))))


def sentences(stream: Stream, count: int) -> list[str]:
    """``count`` sentences of 8 to 15 words, with a capital and a full stop."""
    lengths = _between(stream, count, LEAST_WORDS, MOST_WORDS)
    ends = list(accumulate(lengths, initial=0))
    drawn = words(stream, ends[-1])
    return [" ".join(drawn[start:end]).capitalize() + "." for start, end in pairwise(ends)]


def paragraphs(stream: Stream, count: int) -> list[str]:
    """``count`` paragraphs of 4 to 8 sentences."""
    lengths = _between(stream, count, LEAST_SENTENCES, MOST_SENTENCES)
    ends = list(accumulate(lengths, initial=0))
    drawn = sentences(stream, ends[-1])
    return [" ".join(drawn[start:end]) for start, end in pairwise(ends)]


def _between(stream: Stream, count: int, least: int, most: int) -> list[int]:
    drawn: list[int] = (
        (stream.uniforms(count) * (most - least + 1)).astype("int64") + least
    ).tolist()
    return drawn

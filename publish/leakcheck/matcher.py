"""Which of very many byte patterns occur in a text, in one pass whatever their number.

Rabin and Karp's idea over whole machine words: each pattern is known by one 8-byte window of
it; a text is read as 64-bit words at each of the eight alignments, a bitmap of window hashes
sorts out nearly all of them, and the few that remain are compared byte by byte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

WINDOW = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: 2**64 / golden ratio, odd
_CANDIDATE_OFFSETS = 9

# window word → (offset of the window in the pattern, length of the pattern) → the patterns
_Known = dict[int, dict[tuple[int, int], set[bytes]]]


class Matcher:
    """A fixed set of patterns of at least WINDOW bytes each. Raises ValueError for a shorter."""

    __slots__ = ("_bitmap", "_known", "_shift", "_words")

    def __init__(self, patterns: Iterable[bytes]) -> None:
        wanted = sorted(set(patterns))
        if wanted and min(map(len, wanted)) < WINDOW:
            raise ValueError(f"a pattern has fewer than {WINDOW} bytes")
        self._known = _by_rarest_window(wanted)
        self._words = np.array(sorted(self._known), dtype=np.uint64)
        bits = min(24, max(12, len(self._words).bit_length() + 6))
        self._shift = np.uint64(64 - bits)
        self._bitmap = np.zeros(1 << bits, dtype=np.bool_)
        self._bitmap[self._hash(self._words)] = True

    def find(self, text: bytes) -> set[bytes]:
        """The patterns that occur anywhere in the text."""
        found: set[bytes] = set()
        if self._words.size == 0:
            return found
        for alignment in range(min(WINDOW, max(0, len(text) - WINDOW + 1))):
            count = (len(text) - alignment) // WINDOW
            words = np.frombuffer(text, dtype="<u8", count=count, offset=alignment)
            for index, word in self._hits(words):
                found |= self._at(text, alignment + index * WINDOW, word)
        return found

    def _hits(self, words: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
        maybe = np.flatnonzero(self._bitmap[self._hash(words)])
        # np.isin would hash and sort all of it anew at each call; the words are sorted already.
        nearest = np.searchsorted(self._words, words[maybe]).clip(max=self._words.size - 1)
        sure = maybe[self._words[nearest] == words[maybe]]
        return zip(sure.tolist(), words[sure].tolist(), strict=True)

    def _at(self, text: bytes, place: int, word: int) -> set[bytes]:
        found: set[bytes] = set()
        for (offset, length), patterns in self._known[word].items():
            start = place - offset
            if start >= 0 and (piece := text[start : start + length]) in patterns:
                found.add(piece)
        return found

    def _hash(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        hashed: NDArray[np.uint64] = (words * _SPREAD) >> self._shift
        return hashed


def _by_rarest_window(patterns: list[bytes]) -> _Known:
    """Each pattern under that of a few of its windows which the fewest patterns share, so that
    a common beginning does not send every occurrence of it to the slow comparison."""
    usage = Counter(word for each in patterns for _, word in _windows(each))
    known: _Known = defaultdict(lambda: defaultdict(set))
    for pattern in patterns:
        offset, word = min(_windows(pattern), key=lambda window: (usage[window[1]], window[0]))
        known[word][offset, len(pattern)].add(pattern)
    return {word: dict(buckets) for word, buckets in known.items()}


def _windows(pattern: bytes) -> list[tuple[int, int]]:
    last = len(pattern) - WINDOW
    offsets = sorted(
        {last * step // (_CANDIDATE_OFFSETS - 1) for step in range(_CANDIDATE_OFFSETS)}
    )
    return [(at, int.from_bytes(pattern[at : at + WINDOW], "little")) for at in offsets]

"""Search for very many patterns in one pass over a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

WINDOW = 8  # bytes of a pattern that are looked up
SHORTEST_KNOWN = 11  # bytes of a pattern, so that each fourth window of a text is enough
_WIDEST = 16  # bytes from one window of a text that is looked up to the next, at most
_CANDIDATES = 9  # windows of a pattern, of which the rarest is looked for
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing (Knuth, TAOCP 3, 6.4)
_BLOCK = 1 << 15  # windows at a time: they stay in the processor's cache
_PAIRS = 1 << 18  # of a window and a pattern that are compared at a time

# Not a library: 10^4 private instances make about 1.1 * 10^7 patterns (1,100 each, measured on 200
# instances of two families). Measured on their 2.2 * 10^5 patterns, extrapolated to 10^4 instances:
# pyahocorasick 23 GB and 3 MB/s of noise, ahocorasick_rs 7 GB and 9 MB/s, where 2 GB and 20 MB/s
# are the limits. This class holds them in 5 GB, at 160 MB/s and more.


class Matcher:
    """Finds which of very many patterns occur in a text. Each has at least SHORTEST_KNOWN bytes;
    raises ValueError for a shorter one.

    As many windows of each pattern, one byte apart, are known by their hash as the shortest pattern
    allows, so that a text's windows need be looked up only that far apart, whatever the pattern's
    place in it. A table of their hashes sorts out nearly all windows of a text. What stands around
    a known window is compared byte by byte.
    """

    __slots__ = ("_at", "_filter", "_keys", "_owner", "_patterns", "_sides", "_stride")

    def __init__(self, patterns: Iterable[bytes]) -> None:
        wanted = self._patterns = sorted(set(patterns))
        shortest = min(map(len, wanted), default=SHORTEST_KNOWN)
        if shortest < SHORTEST_KNOWN:
            raise ValueError(f"a pattern has fewer than {SHORTEST_KNOWN} bytes")
        stride = self._stride = min(_WIDEST, shortest - WINDOW + 1)
        # The rarest window of each: a common beginning must not send every occurrence of it to
        # the slow comparison.
        offsets = [_offsets(pattern, stride) for pattern in wanted]
        usage = Counter(
            pattern[at : at + WINDOW]
            for pattern, places in zip(wanted, offsets, strict=True)
            for at in places
        )
        starts = [
            min(places, key=lambda at: (usage[pattern[at : at + WINDOW]], at))
            for pattern, places in zip(wanted, offsets, strict=True)
        ]
        windows = b"".join(
            pattern[start + step : start + step + WINDOW]
            for pattern, start in zip(wanted, starts, strict=True)
            for step in range(stride)
        )
        keys = np.frombuffer(windows, "<u8")
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._owner = (order // stride).astype(np.int32)
        self._at = np.array(starts, np.int32)[self._owner] + (order % stride).astype(np.int32)
        # The first and the last window of each, and the place of the last.
        self._sides = (
            np.frombuffer(b"".join(p[:WINDOW] for p in wanted), "<u8"),
            np.frombuffer(b"".join(p[-WINDOW:] for p in wanted), "<u8"),
            np.array([len(p) - WINDOW for p in wanted], np.int64),
        )
        self._filter = np.zeros(1 << min(24, max(16, len(keys).bit_length() + 5)), np.bool_)
        self._filter[self._hash(self._keys)] = True

    def _hash(self, windows: NDArray[np.uint64]) -> NDArray[np.int64]:
        bits = len(self._filter).bit_length() - 1
        return (windows * _FACTOR >> np.uint64(64 - bits)).view(np.int64)

    def find(self, text: bytes) -> set[bytes]:
        """The patterns that occur anywhere in the text."""
        found: set[bytes] = set()
        count = max(0, len(text) - WINDOW + self._stride) // self._stride if self._patterns else 0
        windows = np.ndarray((count,), "<u8", text, strides=(self._stride,))
        for begin in range(0, count, _BLOCK):
            block = windows[begin : begin + _BLOCK]
            hits = np.flatnonzero(self._filter.take(self._hash(block), mode="wrap"))
            if len(hits):
                found |= self._compare(text, block[hits], (begin + hits) * self._stride)
        return found

    def _compare(
        self, text: bytes, windows: NDArray[np.uint64], places: NDArray[np.int64]
    ) -> set[bytes]:
        """The patterns with one of these windows that stand in the text at its place."""
        low = np.searchsorted(self._keys, windows)
        known = self._keys[np.minimum(low, len(self._keys) - 1)] == windows
        low, windows, places = low[known], windows[known], places[known]
        count = np.searchsorted(self._keys, windows, "right") - low
        found: set[bytes] = set()
        parts = np.flatnonzero(np.diff(np.cumsum(count) // _PAIRS)) + 1
        for part in np.split(np.arange(len(count)), parts):
            hit = np.repeat(part, count[part])
            entry = np.arange(len(hit)) + np.repeat(
                low[part] - np.cumsum(count[part]) + count[part], count[part]
            )
            found |= self._standing(text, self._owner[entry], places[hit] - self._at[entry])
        return found

    def _standing(
        self, text: bytes, owner: NDArray[np.int64], start: NDArray[np.int64]
    ) -> set[bytes]:
        """Those of the patterns that stand in the text at their start."""
        first, last, after = self._sides
        every = np.ndarray((len(text) - WINDOW + 1,), "<u8", text, strides=(1,))
        inside = (start >= 0) & (start + after[owner] < len(every))
        owner, start = owner[inside], start[inside]
        same = (every[start] == first[owner]) & (every[start + after[owner]] == last[owner])
        found: set[bytes] = set()
        for number, at in zip(owner[same].tolist(), start[same].tolist(), strict=True):
            pattern = self._patterns[number]
            if pattern not in found and text.startswith(pattern, at):
                found.add(pattern)
        return found


def _offsets(pattern: bytes, stride: int) -> set[int]:
    last = len(pattern) - WINDOW - stride + 1
    return {last * step // (_CANDIDATES - 1) for step in range(_CANDIDATES)}

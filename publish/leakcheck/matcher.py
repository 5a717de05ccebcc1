"""Which of very many byte patterns occur in a text, in one pass whatever their number.

An Aho-Corasick automaton finds one window of each pattern, and what stands around the window is
compared byte by byte. An automaton of whole patterns would take 35 bytes of memory for each of
theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import ahocorasick

WINDOW = 8
_CANDIDATES = 9  # windows of a pattern, of which the rarest is looked for


class Matcher:
    """A fixed set of patterns of at least WINDOW bytes each. Raises ValueError for a shorter."""

    __slots__ = ("_automaton",)

    def __init__(self, patterns: Iterable[bytes]) -> None:
        wanted = sorted(set(patterns))
        if wanted and min(map(len, wanted)) < WINDOW:
            raise ValueError(f"a pattern has fewer than {WINDOW} bytes")
        # The rarest window of each: a common beginning must not send every occurrence of it to
        # the slow comparison.
        usage = Counter(pattern[at : at + WINDOW] for pattern in wanted for at in _offsets(pattern))
        known: dict[bytes, list[tuple[int, bytes]]] = {}
        for pattern in wanted:
            offset = min(_offsets(pattern), key=lambda at: (usage[pattern[at : at + WINDOW]], at))
            known.setdefault(pattern[offset : offset + WINDOW], []).append((offset, pattern))
        self._automaton = ahocorasick.Automaton()
        for window, places in known.items():
            self._automaton.add_word(window.decode("latin-1"), places)
        self._automaton.make_automaton()

    def find(self, text: bytes) -> set[bytes]:
        """The patterns that occur anywhere in the text."""
        if not len(self._automaton):
            return set()
        return {
            pattern
            for end, places in self._automaton.iter(text.decode("latin-1"))
            for offset, pattern in places
            if (start := end + 1 - WINDOW - offset) >= 0 and text.startswith(pattern, start)
        }


def _offsets(pattern: bytes) -> set[int]:
    last = len(pattern) - WINDOW
    return {last * step // (_CANDIDATES - 1) for step in range(_CANDIDATES)}

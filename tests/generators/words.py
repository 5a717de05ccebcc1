"""Streams whose words are told, to force the draws that a guard must refuse."""

from __future__ import annotations

from collections.abc import Callable

from generators.seed import Streams
from generators.stream import Stream


class Told(Stream):
    """A stream of given words, the last of them for ever."""

    __slots__ = ("_words",)

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def word(self) -> int:
        return self._words.pop(0) if len(self._words) > 1 else self._words[0]


class Forced:
    """Streams whose words, one or a list of them, are given by purpose, index and attempt; None
    leaves them as drawn."""

    def __init__(self, drawn: Streams, words: Callable[[str, int, int], int | list[int] | None]):
        self._drawn, self._words = drawn, words

    def at(self, purpose: str, index: int = 0, attempt: int = 0) -> Stream:
        words = self._words(purpose, index, attempt)
        if words is None:
            return self._drawn.at(purpose, index, attempt)
        return Told(*words) if isinstance(words, list) else Told(words)

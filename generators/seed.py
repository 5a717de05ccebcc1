"""Seeds: 32 bytes from which every stream of an instance is derived by name; and the redrawing of
degenerate draws. That of a given item is followed by the item itself (items/item.py), so that it
lies wherever the seed lies, as secret as it, under the same commitment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from string import hexdigits
from typing import Protocol, TypeVar

from generators.errors import GeneratorError, GuardExhausted
from generators.stream import Stream

T = TypeVar("T")

SEED_BYTES = 32
MAX_ATTEMPTS = 100
_TAG = b"dosimeter/seed/1"


@dataclass(frozen=True, slots=True)
class Seed:
    """A secret of 32 bytes, and the item behind them if it is of one. Its repr never shows them,
    so that no log can."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) != SEED_BYTES and self.value[SEED_BYTES : SEED_BYTES + 1] != b"{":
            raise GeneratorError(f"a seed is 32 bytes, not {len(self.value)}")

    @classmethod
    def from_hex(cls, text: str) -> Seed:
        """The seed written as 64 hexadecimal digits, and those of an item. Raises GeneratorError
        for all else."""
        if len(text) != 64 and (len(text) % 2 or not text[64:].startswith("7b")):
            raise GeneratorError(
                f"a seed is 64 hexadecimal digits (32 bytes); this has {len(text)} characters"
            )
        if not set(text) <= set(hexdigits):
            raise GeneratorError(
                "a seed is 64 hexadecimal digits; this has another character among them"
            )
        return cls(bytes.fromhex(text))

    @property
    def hex(self) -> str:
        """The seed as hexadecimal digits; as secret as the seed."""
        return self.value.hex()

    @property
    def item(self) -> bytes:
        """The item behind the 32 bytes; empty for a seed of a family that generates."""
        return self.value[SEED_BYTES:]

    def child(self, *path: str | int) -> Seed:
        """The seed at a named path below this one: SHA-256 over length-prefixed parts.

        The prefixes make paths unambiguous: ("ab", "c") is not ("a", "bc"), and 1 is not "1".
        """
        return Seed(hashlib.sha256(self.preimage(*path)).digest())

    def preimage(self, *parts: str | int) -> bytes:
        """The preimage, under SHA-256, of the seed of that name; as secret as the seed. That of a
        longer path begins with that of its beginning."""
        return b"".join((_TAG, self.value[:SEED_BYTES], *map(path_part, parts)))

    def rng(self) -> Stream:
        """The stream of draws at this path."""
        return Stream(self.value[:SEED_BYTES])


@lru_cache(maxsize=4096, typed=True)  # the same few names come again for every sample
def path_part(part: str | int) -> bytes:
    """One part of a path, with its kind and length before it."""
    data = str(part).encode()
    return (b"i" if isinstance(part, int) else b"s") + len(data).to_bytes(4, "big") + data


class Streams(Protocol):
    """One independent stream for each purpose, object and attempt."""

    def at(self, purpose: str, index: int = 0, attempt: int = 0) -> Stream:
        """The stream of a purpose, the number of an object, and an attempt."""
        ...


@dataclass(frozen=True, slots=True)
class SeedStreams:
    """The streams of the instance that a seed makes of a family at a difficulty."""

    seed: Seed
    family: str
    version: str
    difficulty: str
    # Common start of the names of all streams, computed once: an instance may have thousands.
    _start: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        start = self.seed.preimage(self.family, self.version, self.difficulty)
        object.__setattr__(self, "_start", start)

    def at(self, purpose: str, index: int = 0, attempt: int = 0) -> Stream:
        """The stream of ``seed.child(family, version, difficulty, purpose, index, attempt)``."""
        rest = path_part(purpose) + path_part(index) + path_part(attempt)
        return Stream(hashlib.sha256(self._start + rest).digest())


def redraw(draw: Callable[[int], T | None], what: str) -> tuple[T, int]:
    """The first draw that is not degenerate (None), and the number of its attempt from 0.

    Raises GuardExhausted after 100 (R4).
    """
    for attempt in range(MAX_ATTEMPTS):
        if (drawn := draw(attempt)) is not None:
            return drawn, attempt
    raise GuardExhausted(f"{what}: degenerate in {MAX_ATTEMPTS} draws on end")


# The seed of every example that is shown; no study draws it.
EXAMPLE_SEED = Seed(bytes(32)).child("example")

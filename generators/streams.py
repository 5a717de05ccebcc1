"""The named streams of one instance, and the redrawing of degenerate draws."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from generators.errors import GuardExhausted
from generators.seed import Seed, path_part
from generators.stream import Stream

T = TypeVar("T")

MAX_ATTEMPTS = 100


class Streams(Protocol):
    """One independent stream for each purpose, object and attempt (spec/physics.md, R1)."""

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
    # What the names of all streams begin with: an instance may have thousands.
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

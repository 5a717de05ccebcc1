"""The named streams of one instance, and the redrawing of degenerate draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from generators.errors import GuardExhausted
from generators.seed import Seed
from generators.stream import Stream

T = TypeVar("T")

MAX_ATTEMPTS = 100


class Streams(Protocol):
    """One independent stream for each purpose, object and attempt (spec/physics.md, R1)."""

    def at(self, purpose: str, index: int = 0, attempt: int = 0) -> Stream: ...


@dataclass(frozen=True, slots=True)
class SeedStreams:
    """The streams of the instance that a seed makes of a family at a difficulty."""

    seed: Seed
    family: str
    version: str
    difficulty: str

    def at(self, purpose: str, index: int = 0, attempt: int = 0) -> Stream:
        path = (self.family, self.version, self.difficulty, purpose, index, attempt)
        return self.seed.child(*path).rng()


def redraw(draw: Callable[[int], T | None], what: str) -> tuple[T, int]:
    """The first draw that is not degenerate (None), and the number of its attempt from 0.

    Raises GuardExhausted after 100 (R4).
    """
    for attempt in range(MAX_ATTEMPTS):
        if (drawn := draw(attempt)) is not None:
            return drawn, attempt
    raise GuardExhausted(f"{what}: degenerate in {MAX_ATTEMPTS} draws on end")

"""What each difficulty means (spec/physics.md, §6; docs/decisions/0002)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.errors import unknown
from generators.task import Limits

NAME = "count_circles"
VERSION = "1"

# Geometry in pixels.
SIDE = 512
RADIUS = 12
MARGIN = 24  # of a centre from the edge
GAP = 30  # between centres, at least

AVERAGE_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many images, how many discs at most in each, and what an episode may use."""

    files: int
    most: int
    limits: Limits


BY_DIFFICULTY = {
    "easy": Parameters(files=2, most=6, limits=Limits(turns=10)),
    "medium": Parameters(files=10, most=10, limits=Limits(turns=20)),
    "hard": Parameters(files=30, most=30, limits=Limits(turns=50, episode_seconds=1800.0)),
}


def parameters_of(difficulty: str) -> Parameters:
    """Raises GeneratorError for an unknown difficulty."""
    if difficulty not in BY_DIFFICULTY:
        raise unknown("difficulty", difficulty, BY_DIFFICULTY)
    return BY_DIFFICULTY[difficulty]


def file_names(files: int) -> tuple[str, ...]:
    return tuple(f"{number}.png" for number in range(1, files + 1))

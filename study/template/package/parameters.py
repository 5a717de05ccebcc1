"""What each difficulty means."""

from __future__ import annotations

from dataclasses import dataclass

from generators.errors import unknown
from generators.task import Limits

NAME = "new_task"
VERSION = "1"

INPUT = "readings.csv"
LOW, HIGH = 10.0, 1000.0
DECIMALS = 6
MEAN_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many readings, what share of them is bad on average, what an episode may use."""

    readings: int
    bad_share: float
    limits: Limits


BY_DIFFICULTY = {
    "easy": Parameters(5, 0.3, Limits(turns=10)),
    "medium": Parameters(15, 0.3, Limits(turns=10)),
    "hard": Parameters(40, 0.3, Limits(turns=15)),
}


def parameters_of(difficulty: str) -> Parameters:
    """Raises GeneratorError for an unknown difficulty."""
    if difficulty not in BY_DIFFICULTY:
        raise unknown("difficulty", difficulty, BY_DIFFICULTY)
    return BY_DIFFICULTY[difficulty]

"""What each difficulty means (spec/physics.md, §7)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.errors import unknown
from generators.task import Limits

NAME = "compute_average"
VERSION = "1"

INPUT = "input_numbers.txt"
DECIMALS = 6
UNIT = 1_000_000  # 10**DECIMALS; numbers are drawn and added in whole units of the last decimal
BOUND = 1000  # numbers lie strictly between -BOUND and BOUND

AVERAGE_TOLERANCE = 0.005
NUMBER_TOLERANCE = 0.5 / UNIT  # half of the last decimal that is written


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many numbers; how many of them repeat another, are negative at the least, and are
    written in exponent form; and what an episode may use."""

    numbers: int
    repeats: int
    negatives: int
    exponents: int
    limits: Limits


BY_DIFFICULTY = {
    "easy": Parameters(3, repeats=0, negatives=0, exponents=0, limits=Limits(turns=10)),
    "medium": Parameters(20, repeats=1, negatives=1, exponents=0, limits=Limits(turns=10)),
    "hard": Parameters(200, repeats=3, negatives=1, exponents=1, limits=Limits(turns=15)),
}


def parameters_of(difficulty: str) -> Parameters:
    """Raises GeneratorError for an unknown difficulty."""
    if difficulty not in BY_DIFFICULTY:
        raise unknown("difficulty", difficulty, BY_DIFFICULTY)
    return BY_DIFFICULTY[difficulty]

"""Parameters of each difficulty."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "program_repair"

# Files, in the agent's work folder.
PROGRAM_FILE = "program.py"
EXAMPLES = "examples.txt"

POOL = 60  # inputs drawn for each function, from which examples and hidden tests are taken
MOST_EXAMPLES = 9  # of one function


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of functions, of those with a fault, and of functions that combine two; hidden tests
    of each function that a fault breaks; and the share of inputs that a fault shows on: a fault
    that shows on few is subtle."""

    functions: int
    faults: int
    combined: int
    tests: int
    least_shown: float
    most_shown: float


BY_DIFFICULTY = {
    "easy": Parameters(
        functions=4,
        faults=2,
        combined=0,
        tests=8,
        least_shown=0.7,
        most_shown=1.0,
        limits=Limits(turns=15),
    ),
    "medium": Parameters(
        functions=7,
        faults=4,
        combined=1,
        tests=5,
        least_shown=0.4,
        most_shown=0.9,
        limits=Limits(turns=20),
    ),
    "hard": Parameters(
        functions=10,
        faults=7,
        combined=2,
        tests=4,
        least_shown=0.2,
        most_shown=0.6,
        limits=Limits(turns=30),
    ),
}

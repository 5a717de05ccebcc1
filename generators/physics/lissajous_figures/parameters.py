"""Parameters of each difficulty (spec/physics.md, §5; docs/decisions/0008)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "lissajous_figures"

TABLE = "measurements.csv"
COLUMNS = ("day", "supply_ID", "machine", "batch", "measurement_id")
FOLDER = "oscilloscope_output"

REFERENCE_HZ = 100
COILS_H = (6.0, 3.0, 2.0, 1.5, 1.2, 1.0)
IMPEDANCE_OHM = (376.5, 377.5)  # values that round to 377: low included, high not
WORST_RATE = Fraction(1, 10)  # of failures among a machine's tested units, before it is faulty
FREQUENCY_TOLERANCE = 0.5  # of a frequency asked for to the integer

# Geometry of a picture, in pixels.
SIDE = 1000
UNIT = 80  # one unit of the screen
TURN = 1 << 16  # parts of a full turn, of which every angle is a whole number
TIP_GAP = 12  # between two tips of the curve on an edge of its box, at least

# Draws.
AMPLITUDES = (3.0, 5.0)  # units of the screen
OPENNESS = (0.15, 0.5)  # 0 is a line that is retraced


@dataclass(frozen=True, slots=True)
class Ratio:
    """Cycles of the supply (q, upwards) to cycles of the reference (p, sideways), coprime."""

    q: int
    p: int

    @property
    def hertz(self) -> Fraction:
        """Both frequencies, in hertz."""
        return Fraction(REFERENCE_HZ * self.q, self.p)

    @property
    def is_good(self) -> bool:
        """True if some coil of the product line has 377 Ω at this frequency."""
        low, high = IMPEDANCE_OHM
        angular = 2 * math.pi * float(self.hertz)
        return any(low <= angular * coil < high for coil in COILS_H)


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Numbers of units, days, batches and faults, and the ratios of the figures.

    ``faults`` has a range for each machine: the number of its ``tested`` units that fail.
    ``zeros`` is the least number of faulty units with an identifier that begins with 0.
    """

    units: int
    days: int
    tested: int
    batches: int
    faults: tuple[tuple[int, int], ...]
    ratios: tuple[Ratio, ...]
    zeros: int
    states_axis: bool

    @property
    def machines(self) -> int:
        """Number of machines."""
        return len(self.faults)

    @property
    def axis(self) -> str:
        """The sentence of the prompt about the axes, or nothing."""
        stated = " The reference moves the beam sideways, the supply up and down."
        return stated if self.states_axis else ""

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "units": self.units,
            "days": self.days,
            "machines": self.machines,
            "tested_per_machine": self.tested,
            "batches": self.batches,
            "frequencies": len(self.ratios),
            "leading_zeros": self.zeros,
        }


_EASY = (Ratio(1, 3), Ratio(1, 2), Ratio(1, 1))
_MEDIUM = (Ratio(1, 5), *_EASY, Ratio(2, 3))
_HARD = tuple(Ratio((f := Fraction(tens, 10)).numerator, f.denominator) for tens in range(1, 11))

BY_DIFFICULTY = {
    "easy": Parameters(
        units=30,
        days=10,
        tested=8,
        batches=2,
        faults=((3, 3), (0, 0)),
        ratios=_EASY,
        zeros=0,
        states_axis=True,
        limits=Limits(turns=20),
    ),
    "medium": Parameters(
        units=200,
        days=20,
        tested=10,
        batches=3,
        faults=((4, 7), (1, 1), (0, 0)),
        ratios=_MEDIUM,
        zeros=1,
        states_axis=False,
        limits=Limits(turns=30, working_seconds=1800.0),
    ),
    "hard": Parameters(
        units=2000,
        days=60,
        tested=20,
        batches=6,
        faults=((6, 14), (6, 14), (2, 2), (1, 1), (0, 0), (0, 0)),
        ratios=(*_HARD, Ratio(1, 3), Ratio(2, 3)),
        zeros=1,
        states_axis=False,
        limits=Limits(turns=50, tool_seconds=120.0, working_seconds=3600.0),
    ),
}


def picture_path(measurement_id: str) -> str:
    """The path of a picture."""
    return f"{FOLDER}/ID_{measurement_id}.png"

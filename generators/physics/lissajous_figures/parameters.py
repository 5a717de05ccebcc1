"""Parameters of each difficulty (docs/decisions/0008)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "lissajous_figures"

TABLE = "measurements.csv"
COLUMNS = ("day", "supply_ID", "machine", "batch", "measurement_id")
COIL_TABLE = "coils.csv"
COIL_COLUMNS = ("coil", "inductance_H")
FOLDER = "oscilloscope_output"

REFERENCE_HZ = 100
IMPEDANCE_OHM = (376.5, 377.5)  # values that round to 377: low included, high not
NO_COIL = "none"
WORST_RATE = Fraction(1, 10)  # of failures among a machine's tested units, before it is faulty
FREQUENCY_TOLERANCE = 0.5  # of a frequency asked for to the integer
PERIOD_TOLERANCE = 0.5  # of a time asked for in whole milliseconds
CLASSIFIED_SHARE = 2 / 3  # of the good ones read, and of the faulty ones read

# Geometry of a picture, in pixels.
SIDE = 1000
PICTURE_BYTES = 65_536  # of each file: pictures of one size show no ratio in a list of files
UNIT = 80  # one unit of the screen
TURN = 1 << 16  # parts of a full turn, of which every angle is a whole number
TIP_GAP = 12  # between two tips of the curve on an edge of its box, at least

# Draws.
AMPLITUDES = (3.0, 5.0)  # units of the screen
OPENNESS = (0.15, 0.5)  # 0 is a line that is retraced
FITTING_OHM = (376.6, 377.4)  # impedance of a coil at the frequency that it fits
MISFIT = (0.01, 0.04)  # relative error of a coil that nearly fits; less than frequencies differ
INDUCTANCE_DECIMALS = 4


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
    def period_ms(self) -> int:
        """Time after which the figure repeats, in milliseconds: p cycles of the reference."""
        return 1000 * self.p // REFERENCE_HZ

    @property
    def symmetry(self) -> str:
        """The symmetry of the figure at every phase. Half a period later x and y have the signs
        (−1)^p and (−1)^q, of which one at least is −1."""
        if self.p % 2 and self.q % 2:
            return "half-turn"
        return "left-right" if self.p % 2 else "up-down"


def fits(inductance: float, hertz: float) -> bool:
    """True if a coil of this inductance has 377 Ω at this frequency, to three figures."""
    low, high = IMPEDANCE_OHM
    return low <= 2 * math.pi * hertz * inductance < high


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Numbers of units, days, batches and faults, and the ratios of the figures.

    ``faults`` has a range for each machine: the number of its ``tested`` units that fail.
    ``ratios`` are pairs about equally hard to read: a coil fits one of each pair, drawn for each
    instance, and another coil nearly fits the other.
    ``zeros`` is the least number of faulty units with an identifier that begins with 0.
    """

    units: int
    days: int
    tested: int
    batches: int
    faults: tuple[tuple[int, int], ...]
    ratios: tuple[tuple[Ratio, Ratio], ...]
    zeros: int

    @property
    def machines(self) -> int:
        """Number of machines."""
        return len(self.faults)

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "units": self.units,
            "days": self.days,
            "machines": self.machines,
            "tested_per_machine": self.tested,
            "batches": self.batches,
            "frequencies": 2 * len(self.ratios),
            "leading_zeros": self.zeros,
        }


def _pairs(*pairs: tuple[int, int, int, int]) -> tuple[tuple[Ratio, Ratio], ...]:
    return tuple((Ratio(q, p), Ratio(other_q, other_p)) for q, p, other_q, other_p in pairs)


BY_DIFFICULTY = {
    "easy": Parameters(
        units=60,
        days=10,
        tested=10,
        batches=3,
        faults=((4, 4), (0, 0)),
        ratios=_pairs((1, 1, 1, 2), (2, 3, 2, 5), (3, 4, 3, 5)),
        zeros=0,
        limits=Limits(turns=30),
    ),
    "medium": Parameters(
        units=200,
        days=20,
        tested=10,
        batches=4,
        faults=((5, 7), (1, 1), (0, 0)),
        ratios=_pairs((2, 3, 2, 5), (3, 4, 3, 5), (4, 5, 3, 7), (5, 7, 3, 8)),
        zeros=1,
        limits=Limits(turns=30, working_seconds=1800.0),
    ),
    "hard": Parameters(
        units=2000,
        days=60,
        tested=10,
        batches=6,
        faults=((5, 6), (4, 5), (1, 1), (1, 1), (0, 0), (0, 0)),
        ratios=_pairs(
            (3, 4, 2, 5), (4, 5, 3, 7), (3, 8, 4, 7), (5, 8, 3, 10), (6, 7, 2, 9), (7, 10, 9, 10)
        ),
        zeros=1,
        limits=Limits(turns=50, tool_seconds=120.0, working_seconds=3600.0),
    ),
}


def picture_path(measurement_id: str) -> str:
    """The path of a picture."""
    return f"{FOLDER}/ID_{measurement_id}.png"

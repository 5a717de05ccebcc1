"""Parameters of each difficulty (spec/physics.md, §2; docs/decisions/0005)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "cepheid_calibration"

TABLE = "cepheids_measurements.csv"
LAB_IMAGE = "spectral_lines_lab.png"
SPECTRA = "observed_spectra"
FIT = "linear_free_intercept"

LIGHT_SPEED = 299_792.0  # km/s
HUBBLE = 67.0  # km/s/Mpc

# Draws: slope and offset of the relation, period in days, distance of decoys in Mpc.
SLOPES = (-3.6, -1.2)
OFFSETS = (-5.4, -2.6)
PERIODS = (3.0, 100.0)
REDSHIFTS = (0.01, 0.05)
DECOY_DISTANCES = (40.0, 230.0)
SCATTER = 0.217  # mag: 10 % in distance
P_MISSING = 0.15  # of a magnitude, and independently of a period
P_LINE = 0.5
DECIMALS = 4  # of magnitudes and periods

# Guards: complete rows, and the spread of their log10 P about its mean (sum of squares).
FEWEST_ROWS = 8
SMALLEST_SPREAD = 0.5

Z_TOLERANCE = 1e-4
NEAR = 10.0  # times that: a reading that shows that the spectrum was looked at (R8e)
DECOYS = 30  # criteria at most for Cepheids that lack a spectrum


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of galaxies; the probabilities that one has a Cepheid and a spectrum; the tolerance
    of slope and offset in standard errors, and of these errors as a share."""

    galaxies: int
    p_cepheid: float
    p_spectrum: float
    error_share: float
    sigma_tolerance: float


def _limits(turns: int, minutes: float) -> Limits:
    return Limits(
        turns=turns, tool_seconds=120.0, working_seconds=60.0 * minutes, output_bytes=65_536
    )


BY_DIFFICULTY = {
    "easy": Parameters(34, 1.0, 0.5, 0.5, 0.3, limits=_limits(20, 20)),
    "medium": Parameters(200, 0.35, 0.5, 0.35, 0.2, limits=_limits(30, 30)),
    "hard": Parameters(4000, 0.42, 0.05, 0.25, 0.1, limits=_limits(50, 45)),
}


def image_path(galaxy: str) -> str:
    """The path of a galaxy's picture."""
    return f"{SPECTRA}/{galaxy}.png"

"""Parameters of each difficulty (docs/decisions/0005 and 0025)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "cepheid_calibration"

TABLE = "cepheids_measurements.csv"
LAB_IMAGE = "spectral_lines_lab.png"
SPECTRA = "observed_spectra"
PICTURE_BYTES = 20_000  # of every picture's file

LIGHT_SPEED = 299_792.0  # km/s
HUBBLE = 67.0  # km/s/Mpc

# Draws: slope and offset of the relation, period in days.
SLOPES = (-3.6, -1.2)
OFFSETS = (-6.4, -4.4)
PERIODS = (10.0, 100.0)
# Mean magnitude of a Cepheid of the shortest period in the farthest galaxies: their redshift
# follows from it, so that no magnitude shows how bright the Cepheids of an instance are.
REACH = 27.1
FAINTEST = 28.0  # mag: what a telescope reaches
NEAREST = 0.35  # redshift of the nearest galaxies, in that of the farthest
SCATTER = 0.217  # mag: 10 % in distance
P_MISSING = 0.15  # of a magnitude, and independently of a period
P_LINE = 0.5
DECIMALS = 4  # of magnitudes and periods

# Guards: complete rows, and the spread of their log10 P about its mean (sum of squares).
FEWEST_ROWS = 8
SMALLEST_SPREAD = 0.5

# Half of the redshifts must be this close before a result counts (R8e): wider, and they could be
# read off the table with a remembered relation.
GATE_TOLERANCE = 0.0002
MAGNITUDE_TOLERANCE = 0.005  # beyond what the redshift's tolerance admits
DECOYS = 10  # criteria at most for Cepheids that lack a spectrum


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of galaxies; the probabilities that one has a Cepheid and a spectrum; the tolerance
    of a redshift, of slope and offset in standard errors, and of these errors as a share."""

    galaxies: int
    p_cepheid: float
    p_spectrum: float
    z_tolerance: float
    error_share: float
    sigma_tolerance: float


def _limits(turns: int, minutes: float) -> Limits:
    return Limits(
        turns=turns, tool_seconds=120.0, working_seconds=60.0 * minutes, output_bytes=65_536
    )


BY_DIFFICULTY = {
    "easy": Parameters(34, 1.0, 0.5, 0.0001, 0.5, sigma_tolerance=0.3, limits=_limits(20, 20)),
    "medium": Parameters(
        200, 0.35, 0.5, 0.00007, 0.35, sigma_tolerance=0.2, limits=_limits(30, 30)
    ),
    "hard": Parameters(
        4000, 0.42, 0.05, 0.00005, 0.25, sigma_tolerance=0.1, limits=_limits(50, 45)
    ),
}


def image_path(galaxy: str) -> str:
    """The path of a galaxy's picture."""
    return f"{SPECTRA}/{galaxy}.png"

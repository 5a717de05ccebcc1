"""Parameters of each difficulty (docs/decisions/0006 and 0025)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "hubble_constant"

# Files, in the agent's work folder.
MEASUREMENTS = "cepheids_measurements.csv"
LAB_IMAGE = "spectral_lines_lab.png"
COLUMNS = (
    "galaxy_ID",
    "sigma_v [km/s]",
    "cepheid_ID",
    "mean_mag_cepheid",
    "mag_error",
    "E(B-V)",
    "period [days]",
)
MAGNITUDE_DECIMALS = 3
EXCESS_DECIMALS = 3  # of E(B−V)
PERIOD_DECIMALS = 4
PICTURE_BYTES = 36_000  # of every picture's file

# The sky. Distances in Mpc, velocities in km/s, the constant in km/s/Mpc, periods in days.
LIGHT = 299_792.0
CONSTANT_RANGE = (50.0, 110.0)
DISTANCE_RANGE = (15.0, 38.0)  # in which a telescope sees Cepheids one by one
SLOPE, ZERO_POINT = -3.1, -5.9  # M = SLOPE · (log₁₀ P − 1) + ZERO_POINT
SCATTER = 0.1  # mag, of Cepheids about that relation
EXTINCTION = 1.5  # mag for each mag of E(B−V)
EXCESS_RANGE = (0.05, 0.5)
PERIOD_RANGE = (15.0, 100.0)
FAINTEST = 28.0  # mag: what a telescope reaches
P_MISSING = 0.15  # of a magnitude; of a period, independently

# An instance whose best estimate of the constant errs by more standard errors is drawn again, and
# one is right that errs by no more than these (R8d): so all efficient estimators are.
LARGEST_ERROR, CONSTANT_ERRORS = 2.0, 2.5
DISTANCE_TOLERANCE = 0.01  # relative

# Half of the redshifts must be this close before a constant counts (R8e). Wider, and Hubble's
# law with a remembered constant would read the redshifts off the table of Cepheids.
GATE_TOLERANCE = 0.0002


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of galaxies, probability of each of their data, least number of usable ones, range
    of the dispersions of random velocities (km/s) and of the errors of magnitudes, and tolerances
    (of the constant's error: relative)."""

    galaxies: int
    p_cepheid: float
    p_spectrum: float
    p_line: float
    usable: int
    slowest: float
    fastest: float
    smallest_error: float
    largest_error: float
    z_tolerance: float
    error_tolerance: float


BY_DIFFICULTY = {
    "easy": Parameters(
        galaxies=8,
        p_cepheid=1.0,
        p_spectrum=1.0,
        p_line=0.65,
        usable=5,
        slowest=20.0,
        fastest=50.0,
        smallest_error=0.02,
        largest_error=0.05,
        z_tolerance=0.0001,
        error_tolerance=0.4,
        limits=Limits(turns=20),
    ),
    "medium": Parameters(
        galaxies=300,
        p_cepheid=0.7,
        p_spectrum=0.1,
        p_line=0.5,
        usable=8,
        slowest=40.0,
        fastest=120.0,
        smallest_error=0.03,
        largest_error=0.10,
        z_tolerance=0.00007,
        error_tolerance=0.3,
        limits=Limits(turns=40, working_seconds=1800.0),
    ),
    "hard": Parameters(
        galaxies=4000,
        p_cepheid=0.35,
        p_spectrum=0.03,
        p_line=0.35,
        usable=15,
        slowest=60.0,
        fastest=250.0,
        smallest_error=0.04,
        largest_error=0.15,
        z_tolerance=0.00005,
        error_tolerance=0.25,
        # A listing of some 150 pictures with their digests should come through uncut.
        limits=Limits(turns=60, working_seconds=2700.0, output_bytes=32_768),
    ),
}


def image_name(galaxy: str) -> str:
    """The path of a picture."""
    return f"observed_spectra/{galaxy}.png"

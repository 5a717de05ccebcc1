"""Parameters of each difficulty (spec/physics.md, §3; docs/decisions/0006)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "hubble_constant"

# Files, in the agent's work folder.
MEASUREMENTS = "cepheids_measurements.csv"
LAB_IMAGE = "spectral_lines_lab.png"
COLUMNS = ("galaxy_ID", "cepheid_ID", "mean_mag_cepheid", "period [days]")
MAGNITUDE_DECIMALS = 3
PERIOD_DECIMALS = 4

# The sky. Distances in Mpc, velocities in km/s, the constant in km/s/Mpc, periods in days.
LIGHT = 299_792.0
CONSTANT_RANGE = (45.0, 85.0)
REDSHIFT_RANGE = (0.01, 0.05)
LARGEST_REDSHIFT = 0.08  # up to which a spectrum has one reading only
SLOPE, ZERO_POINT = -2.43, -4.05  # M = SLOPE · (log₁₀ P − 1) + ZERO_POINT
SCATTER = 0.217  # of a Cepheid's magnitude: a tenth of its distance
PERIOD_RANGE = (3.0, 100.0)
DECOY_RANGE = (40.0, 230.0)  # distances of Cepheids in galaxies without a spectrum
P_MISSING = 0.15  # of a magnitude; of a period, independently

# Half of the redshifts must be this close before a constant counts (R8e). Wider, and Hubble's
# law with a remembered constant would read the redshifts off the table of Cepheids.
GATE_TOLERANCE = 0.001


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of galaxies, probability of each of their data, least number of usable ones, and
    tolerances of answers (of the constant and its error: relative)."""

    galaxies: int
    p_cepheid: float
    p_spectrum: float
    p_line: float
    usable: int
    z_tolerance: float
    constant_tolerance: float
    error_tolerance: float


BY_DIFFICULTY = {
    "easy": Parameters(
        galaxies=8,
        p_cepheid=1.0,
        p_spectrum=1.0,
        p_line=1.0,
        usable=5,
        z_tolerance=0.0005,
        constant_tolerance=0.04,
        error_tolerance=0.20,
        limits=Limits(turns=20),
    ),
    "medium": Parameters(
        galaxies=300,
        p_cepheid=0.7,
        p_spectrum=0.1,
        p_line=0.5,
        usable=8,
        z_tolerance=0.0002,
        constant_tolerance=0.01,
        error_tolerance=0.15,
        limits=Limits(turns=40, working_seconds=1800.0),
    ),
    "hard": Parameters(
        galaxies=4000,
        p_cepheid=0.35,
        p_spectrum=0.03,
        p_line=0.35,
        usable=15,
        z_tolerance=0.0001,
        constant_tolerance=0.005,
        error_tolerance=0.10,
        # A listing of some 150 pictures with their digests should come through uncut.
        limits=Limits(turns=60, working_seconds=2700.0, output_bytes=32_768),
    ),
}


def image_name(galaxy: str) -> str:
    """The path of a picture."""
    return f"observed_spectra/{galaxy}.png"

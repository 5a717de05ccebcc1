"""The analysis: distances by Hubble's law, and a straight line through the Cepheids.

Only ``math`` on scalars and exactly rounded sums, so that all machines agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.physics.cepheid_calibration.parameters import HUBBLE, LIGHT_SPEED


@dataclass(frozen=True, slots=True)
class Fit:
    """y = slope x + offset, with standard errors."""

    slope: float
    offset: float
    slope_error: float
    offset_error: float


def distance_of(z: float) -> float:
    """In Mpc, with v = cz = H₀ d."""
    return LIGHT_SPEED * z / HUBBLE


def absolute_magnitude(magnitude: float, z: float) -> float:
    """M = m + 5 − 5 log10 d, with d in parsecs."""
    return magnitude - 25.0 - 5.0 * math.log10(distance_of(z))


def spread(values: Sequence[float]) -> float:
    """Sum of squares about the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def fit_line(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Ordinary least squares, s² = Σr²/(n−2), for at least three points with some spread.

    σ_slope = √(s²/S_xx), σ_offset = √(s²(1/n + x̄²/S_xx)).
    """
    count = len(x)
    middle, level = math.fsum(x) / count, math.fsum(y) / count
    s_xx = spread(x)
    slope = math.fsum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / s_xx
    offset = level - slope * middle
    residuals = (b - slope * a - offset for a, b in zip(x, y, strict=True))
    variance = math.fsum(r * r for r in residuals) / (count - 2)
    return Fit(
        slope,
        offset,
        math.sqrt(variance / s_xx),
        math.sqrt(variance * (1.0 / count + middle * middle / s_xx)),
    )


def fit_relation(
    periods: Sequence[float], magnitudes: Sequence[float], redshifts: Sequence[float]
) -> Fit:
    """M against log10 P − 1."""
    x = [math.log10(period) - 1.0 for period in periods]
    y = [absolute_magnitude(m, z) for m, z in zip(magnitudes, redshifts, strict=True)]
    return fit_line(x, y)

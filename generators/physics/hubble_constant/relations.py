"""The relations between what is measured and what is sought (spec/physics.md, §3).

Plain ``math`` on single numbers: array functions may differ in the last bit between processors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.physics.hubble_constant.parameters import LIGHT, SLOPE, ZERO_POINT


@dataclass(frozen=True, slots=True)
class Fit:
    """The slope of v = H₀ d and its standard error, km/s/Mpc."""

    constant: float
    error: float


def velocity(z: float) -> float:
    """The relativistic Doppler velocity (km/s) of a redshift: here a convention."""
    ratio = (1.0 + z) * (1.0 + z)
    return LIGHT * (ratio - 1.0) / (ratio + 1.0)


def absolute_magnitude(period: float) -> float:
    """Of a Cepheid with this period in days."""
    return SLOPE * (math.log10(period) - 1.0) + ZERO_POINT


def apparent_magnitude(period: float, distance: float) -> float:
    """Of a Cepheid with this period (days) at this distance (Mpc)."""
    return absolute_magnitude(period) + 5.0 * math.log10(distance) + 25.0


def distance(magnitude: float, period: float) -> float:
    """In Mpc, from the distance modulus."""
    return math.pow(10.0, (magnitude - absolute_magnitude(period) - 25.0) / 5.0)


def fit_constant(distances: Sequence[float], velocities: Sequence[float]) -> Fit:
    """Unweighted least squares of v on d through the origin; n − 1 degrees of freedom.

    H₀ = Σdv / Σd² and σ² = Σ(v − H₀d)² / ((n − 1) Σd²), for n ≥ 2.
    """
    pairs = list(zip(distances, velocities, strict=True))
    squares = math.fsum(d * d for d, _ in pairs)
    constant = math.fsum(d * v for d, v in pairs) / squares
    residual = math.fsum((v - constant * d) ** 2 for d, v in pairs)
    return Fit(constant, math.sqrt(residual / ((len(pairs) - 1) * squares)))

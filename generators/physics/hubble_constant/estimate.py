"""The efficient estimator of the Hubble constant: maximum likelihood with known errors.

Plain ``math`` on single numbers: array functions may differ in the last bit between processors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.physics.hubble_constant.parameters import LIGHT, SCATTER

_STEPS = 100  # at most; each brings some decimal
_CLOSE = 1e-13
_OF_MAGNITUDE = math.log(10.0) / 5.0  # in ln d, for each magnitude


@dataclass(frozen=True, slots=True)
class Point:
    """A galaxy's redshift and the dispersion of its random velocity (km/s), the distance (Mpc) of
    its Cepheid, and the error of the photometry (mag)."""

    z: float
    motion: float
    distance: float
    magnitude_error: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A Hubble constant and its standard error, km/s/Mpc."""

    constant: float
    error: float


def estimate_constant(points: Sequence[Point]) -> Estimate:
    """Maximise, over H and the true distances d of all galaxies, the likelihood of

    cz = H d + N(0, motion²) and ln D = ln d + N(0, s²), where D is a Cepheid's distance and s =
    (ln 10 / 5) √(SCATTER² + magnitude_error²). At its maximum Σ (ln d − ln D)/s² = 0, which Fisher
    scoring finds; the error is that of Fisher's information.
    """
    start = math.fsum(LIGHT * point.z / point.distance for point in points) / len(points)
    logarithm = math.log(start)
    for _ in range(_STEPS):
        score, information = _slope_of_likelihood(math.exp(logarithm), points)
        logarithm += score / information
        if abs(score / information) < _CLOSE:
            break
    constant = math.exp(logarithm)
    _, information = _slope_of_likelihood(constant, points)
    return Estimate(constant, constant / math.sqrt(information))


def _slope_of_likelihood(constant: float, points: Sequence[Point]) -> tuple[float, float]:
    """The score and the information of ln H, each galaxy at its likeliest distance."""
    scores, informations = [], []
    for point in points:
        variance = _OF_MAGNITUDE**2 * (SCATTER**2 + point.magnitude_error**2)
        observed = math.log(point.distance)
        likeliest = _likeliest(constant, LIGHT * point.z, observed, variance, point.motion)
        relative = point.motion / (constant * math.exp(likeliest))
        scores.append((likeliest - observed) / variance)
        informations.append(1.0 / (variance + relative * relative))
    return math.fsum(scores), math.fsum(informations)


def _likeliest(
    constant: float, velocity: float, observed: float, variance: float, motion: float
) -> float:
    """The ln d that maximises (velocity − H d)²/motion² + (ln d − observed)²/variance, negated:
    by Newton's method without the second derivative of d."""
    logarithm = observed
    for _ in range(_STEPS):
        expected = constant * math.exp(logarithm)
        slope = expected * (velocity - expected) / motion**2 - (logarithm - observed) / variance
        step = slope / ((expected / motion) ** 2 + 1.0 / variance)
        logarithm += step
        if abs(step) < _CLOSE:
            break
    return logarithm

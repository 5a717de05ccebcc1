"""Ground truth of the galaxies as they are written, and the answer that states it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generators.physics.hubble_constant.parameters import NAME, Parameters
from generators.physics.hubble_constant.sample import Sample, distance, velocity
from generators.task import GroundTruth, TruthTable

# Decimals of values computed with logarithms and powers: their last bits depend on the C library.
_DECIMALS = 9

_GALAXIES = ("galaxy_ID", "z", "z_min", "z_max", "distance_Mpc", "velocity_km_s")


@dataclass(frozen=True, slots=True)
class Fit:
    """The slope of v = H₀ d and its standard error, km/s/Mpc."""

    constant: float
    error: float


def fit_constant(distances: Sequence[float], velocities: Sequence[float]) -> Fit:
    """Unweighted least squares of v on d through the origin; n − 1 degrees of freedom.

    H₀ = Σdv / Σd² and σ² = Σ(v − H₀d)² / ((n − 1) Σd²), for n ≥ 2.
    """
    pairs = list(zip(distances, velocities, strict=True))
    squares = math.fsum(d * d for d, _ in pairs)
    constant = math.fsum(d * v for d, v in pairs) / squares
    residual = math.fsum((v - constant * d) ** 2 for d, v in pairs)
    return Fit(constant, math.sqrt(residual / ((len(pairs) - 1) * squares)))


def make_truth(parameters: Parameters, sample: Sample) -> GroundTruth:
    """Tables ``analyzed_galaxies`` (the usable ones, by identifier) and ``results`` (one row:
    the fit, and the closed interval that each of its numbers is accepted in)."""
    rows = _analyzed(parameters, sample)
    zs, distances = [row[1] for row in rows], [row[4] for row in rows]
    fit = fit_constant(distances, [velocity(z) for z in zs])
    constant, error = _margins(parameters, zs, distances, fit)
    result = {
        "H0": fit.constant,
        "H0_min": fit.constant - constant,
        "H0_max": fit.constant + constant,
        "sigma_H0": fit.error,
        "sigma_min": max(fit.error - error, 0.0),
        "sigma_max": fit.error + error,
    }
    rounded = {name: round(number, _DECIMALS) for name, number in result.items()}
    return GroundTruth(
        tables=(
            ("analyzed_galaxies", TruthTable(_GALAXIES, rows)),
            ("results", TruthTable.of_row(n=len(rows), **rounded)),
        ),
        tolerances=(
            ("z", parameters.z_tolerance),
            ("H0", round(constant, _DECIMALS)),
            ("sigma_H0", round(error, _DECIMALS)),
        ),
    )


def _analyzed(
    parameters: Parameters, sample: Sample
) -> tuple[tuple[str, float, float, float, float, float], ...]:
    rows = []
    for galaxy in sample.galaxies:
        spectrum, cepheid = galaxy.spectrum, galaxy.cepheid
        if spectrum is None or cepheid is None:
            continue
        if cepheid.magnitude is None or cepheid.period is None:
            continue
        z, tolerance = spectrum.z, parameters.z_tolerance
        away = round(distance(cepheid.magnitude, cepheid.period), _DECIMALS)
        rows.append((galaxy.id, z, z - tolerance, z + tolerance, away, velocity(z)))
    return tuple(sorted(rows))


def _margins(
    parameters: Parameters, zs: Sequence[float], distances: Sequence[float], fit: Fit
) -> tuple[float, float]:
    """Tolerances of the constant and of its error: a share of each, plus its change if all
    redshifts are off together by their tolerance (R8d)."""
    moved = [
        fit_constant(distances, [velocity(z + offset) for z in zs])
        for offset in (-parameters.z_tolerance, parameters.z_tolerance)
    ]
    constant = max(abs(refit.constant - fit.constant) for refit in moved)
    error = max(abs(refit.error - fit.error) for refit in moved)
    return (
        parameters.constant_tolerance * fit.constant + constant,
        parameters.error_tolerance * fit.error + error,
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    galaxies = truth.table("analyzed_galaxies").records()
    result = truth.table("results").records()[0]
    return {
        "task": NAME,
        "redshifts": [{"id": row["galaxy_ID"], "z": row["z"]} for row in galaxies],
        "H0": result["H0"],
        "sigma_H0": result["sigma_H0"],
        "fit": "linear_through_zero",
    }

"""Ground truth of the galaxies as they are written, and the answer that states it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from generators.physics.hubble_constant.estimate import Point, estimate_constant
from generators.physics.hubble_constant.parameters import (
    CONSTANT_ERRORS,
    DISTANCE_TOLERANCE,
    NAME,
    Parameters,
)
from generators.physics.hubble_constant.sample import Sample
from generators.task import GroundTruth, Scalar, TruthTable

# Decimals of values computed with logarithms and powers: their last bits depend on the C library.
_DECIMALS = 9

_GALAXIES = ("galaxy_ID", "z", "z_min", "z_max", "distance_Mpc", "distance_min", "distance_max")


def make_truth(parameters: Parameters, sample: Sample) -> GroundTruth:
    """Tables ``analyzed_galaxies`` (the usable ones, by identifier) and ``results`` (one row:
    the universe's constant, the error of the best estimate, and the closed interval that each is
    accepted in)."""
    points = _points(sample)
    best = estimate_constant([point for _, point in points])
    margin = CONSTANT_ERRORS * best.error + _shift(parameters, points)
    error_margin = parameters.error_tolerance * best.error
    result = {
        "H0": sample.constant,
        "H0_min": sample.constant - margin,
        "H0_max": sample.constant + margin,
        "sigma_H0": best.error,
        "sigma_min": best.error - error_margin,
        "sigma_max": best.error + error_margin,
    }
    rounded = {name: round(number, _DECIMALS) for name, number in result.items()}
    tolerance = parameters.z_tolerance
    rows: tuple[tuple[Scalar, ...], ...] = tuple(
        (
            *(name, point.z, point.z - tolerance, point.z + tolerance),
            *(round(point.distance * (1.0 + off), _DECIMALS) for off in _OFF),
        )
        for name, point in points
    )
    return GroundTruth(
        tables=(
            ("analyzed_galaxies", TruthTable(_GALAXIES, rows)),
            ("results", TruthTable.of_row(n=len(rows), **rounded)),
        ),
        tolerances=(
            ("z", tolerance),
            ("H0", round(margin, _DECIMALS)),
            ("sigma_H0", round(error_margin, _DECIMALS)),
        ),
    )


_OFF = (0.0, -DISTANCE_TOLERANCE, DISTANCE_TOLERANCE)


def _points(sample: Sample) -> list[tuple[str, Point]]:
    """The usable galaxies by identifier."""
    points = ((galaxy.id, galaxy.point) for galaxy in sample.galaxies)
    return sorted((name, point) for name, point in points if point is not None)


def _shift(parameters: Parameters, points: list[tuple[str, Point]]) -> float:
    """The change of the best estimate if all redshifts are off together by their tolerance
    (R8d)."""
    moved = [
        estimate_constant([replace(point, z=point.z + off) for _, point in points]).constant
        for off in (-parameters.z_tolerance, parameters.z_tolerance)
    ]
    return (max(moved) - min(moved)) / 2.0


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    galaxies = truth.table("analyzed_galaxies").records()
    result = truth.table("results").records()[0]
    return {
        "task": NAME,
        "galaxies": [
            {"id": row["galaxy_ID"], "z": row["z"], "d": row["distance_Mpc"]} for row in galaxies
        ],
        "H0": result["H0"],
        "sigma_H0": result["sigma_H0"],
    }

"""Answers of an agent that opens no file."""

from __future__ import annotations

from typing import Any

from generators.physics.hubble_constant.parameters import (
    CONSTANT_RANGE,
    NAME,
    REDSHIFT_RANGE,
    SCATTER,
    Parameters,
)

# Hubble constants that readers of journals remember, km/s/Mpc, with their errors.
_LITERATURE = {"planck-2018": (67.4, 0.5), "shoes-2022": (73.04, 1.04), "key-project": (72.0, 8.0)}


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, everything at once, the middles of the ranges, and the literature."""
    expected = round(parameters.galaxies * parameters.p_cepheid * parameters.p_spectrum * 0.7225)
    zs = [number / 1000 for number in range(81)]
    many = [{"id": f"GID{number:010d}", "z": z} for number, z in enumerate(zs)]
    constant = sum(CONSTANT_RANGE) / 2
    # A magnitude's scatter is 0.46 times as large in a distance, and averages out over galaxies.
    error = constant * 0.46 * SCATTER / expected**0.5
    literature = {name: _answer(expected, *values) for name, values in _LITERATURE.items()}
    return {
        "empty": {},
        "everything": {
            "task": NAME,
            "redshifts": many,
            "H0": list(range(40, 91)),
            "sigma_H0": list(range(10)),
            "fit": ["linear_through_zero", "linear_free_intercept", "other"],
        },
        "prior": _answer(expected, constant, error),
        **literature,
    }


def _answer(galaxies: int, constant: float, error: float) -> dict[str, Any]:
    z = sum(REDSHIFT_RANGE) / 2
    return {
        "task": NAME,
        "redshifts": [{"id": f"GID{number:010d}", "z": z} for number in range(galaxies)],
        "H0": constant,
        "sigma_H0": error,
        "fit": "linear_through_zero",
    }

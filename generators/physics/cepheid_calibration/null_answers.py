"""Answers of an agent that opens no input file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from generators.physics.cepheid_calibration.parameters import (
    FIT,
    ID_DIGITS,
    NAME,
    OFFSETS,
    P_MISSING,
    PERIODS,
    REDSHIFTS,
    SCATTER,
    SLOPES,
    Parameters,
)

# Slopes, and offsets at ten days, that readers of journals remember.
LITERATURE = {
    "benedict-2007-v": (-2.43, -4.05),
    "freedman-2001-i": (-2.962, -4.904),
    "riess-2019-h": (-3.26, -5.93),
}


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, a list of identifiers as long as the table, the middles of all ranges,
    and the relations of the literature."""
    errors = expected_errors(parameters)
    middle = (_middle(SLOPES), _middle(OFFSETS))
    literature = {name: _answer(line, errors) for name, line in LITERATURE.items()}
    return {
        "empty": {},
        "everything": _answer(middle, errors, range(parameters.galaxies)),
        "prior": _answer(middle, errors, range(12)),
        **literature,
    }


def expected_errors(parameters: Parameters) -> tuple[float, float]:
    """Standard errors of slope and offset that the ranges of the draws lead to expect."""
    complete = parameters.p_cepheid * parameters.p_spectrum * (1.0 - P_MISSING) ** 2
    count = parameters.galaxies * complete
    low, high = (math.log10(period) - 1.0 for period in PERIODS)
    s_xx = count * (high - low) ** 2 / 12.0
    middle = (low + high) / 2.0
    return SCATTER / math.sqrt(s_xx), SCATTER * math.sqrt(1.0 / count + middle**2 / s_xx)


def _middle(span: tuple[float, float]) -> float:
    return (span[0] + span[1]) / 2.0


def _answer(
    line: tuple[float, float], errors: tuple[float, float], numbers: Sequence[int] = ()
) -> dict[str, Any]:
    z = _middle(REDSHIFTS)
    return {
        "task": NAME,
        "redshifts": [{"id": f"CEPH_{number:0{ID_DIGITS}d}", "z": z} for number in numbers],
        "a": line[0],
        "sigma_a": errors[0],
        "b": line[1],
        "sigma_b": errors[1],
        "fit": FIT,
    }

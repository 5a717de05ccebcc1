"""Answers of someone who does not open the file."""

from __future__ import annotations

from typing import Any

from generators.basics.compute_average.parameters import BOUND, NAME, Parameters


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, every round number there is, the middle of the range, and constants."""
    tenths = [number / 10 for number in range(-10 * BOUND, 10 * BOUND + 1)]
    constants = {
        f"constant{constant:+d}": _answer([float(constant)] * parameters.numbers, constant)
        for constant in (-500, -1, 1, 500)
    }
    return {
        "empty": {},
        "everything": _answer(tenths, 0.0),
        "prior": _answer([0.0] * parameters.numbers, 0.0),
        **constants,
    }


def _answer(numbers: list[float], average: float) -> dict[str, Any]:
    return {"task": NAME, "numbers": numbers, "average": average}

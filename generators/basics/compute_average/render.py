"""The input file: one number a line."""

from __future__ import annotations

from decimal import Decimal

from generators.basics.compute_average.parameters import DECIMALS
from generators.basics.compute_average.sample import Sample


def write_number(units: int, exponent: bool) -> str:
    """With all decimals, or in exponent form: both parse to the same float."""
    exact = Decimal(units).scaleb(-DECIMALS)
    return f"{exact:e}" if exponent else f"{exact:.{DECIMALS}f}"


def write_lines(sample: Sample) -> tuple[str, ...]:
    return tuple(
        write_number(units, place in sample.exponents) for place, units in enumerate(sample.units)
    )


def encode_lines(lines: tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")

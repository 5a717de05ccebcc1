"""Draws: the numbers, in whole units of their last decimal, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generators.basics.compute_average.parameters import BOUND, UNIT, Parameters
from generators.streams import Streams, redraw

_CENT = UNIT // 100
_TIE_MARGIN = UNIT // 10_000  # 10⁻⁴


@dataclass(frozen=True, slots=True)
class Sample:
    """The numbers in the order of the file, and the places of those in exponent form."""

    units: tuple[int, ...]
    exponents: frozenset[int]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted where a draw stays degenerate."""
    units, redraws = redraw(lambda attempt: _units(parameters, streams, attempt), "numbers")
    ordered = streams.at("order").shuffle(units)
    places = streams.at("exponents").shuffle(range(len(units)))[: parameters.exponents]
    return Sample(ordered, frozenset(places), redraws)


def _units(parameters: Parameters, streams: Streams, attempt: int) -> tuple[int, ...] | None:
    """Uniform numbers, then copies of some; None where they are degenerate."""
    fresh = [
        streams.at("number", index, attempt).integer(1 - BOUND * UNIT, BOUND * UNIT - 1)
        for index in range(parameters.numbers - parameters.repeats)
    ]
    copies = streams.at("repeats", 0, attempt).shuffle(fresh)[: parameters.repeats]
    units = (*fresh, *copies)
    negatives = sum(number < 0 for number in units)
    return None if negatives < parameters.negatives or is_degenerate(units) else units


def is_degenerate(units: Sequence[int]) -> bool:
    """Whether the mean lies within 1 of zero, or within 10⁻⁴ of a tie of two-decimal rounding:
    a guess of zero or a rounded answer would then meet the tolerance, or miss it, by luck."""
    count, total = len(units), sum(units)
    doubled_way_to_tie = abs(2 * (total % (count * _CENT)) - count * _CENT)
    return abs(total) < count * UNIT or doubled_way_to_tie <= 2 * count * _TIE_MARGIN

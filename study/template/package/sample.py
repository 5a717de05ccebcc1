"""Draws: one stream for each purpose and object, so that a change to one shifts no other."""

from __future__ import annotations

from dataclasses import dataclass

from generators.streams import Streams, redraw

from .parameters import HIGH, LOW, Parameters


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of an instrument. ``id`` cannot be guessed."""

    id: str
    bad: bool
    value: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The readings in the order of the file, and how many draws were refused."""

    readings: tuple[Reading, ...]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted where a draw stays degenerate."""
    readings, redraws = redraw(lambda attempt: _readings(parameters, streams, attempt), "readings")
    return Sample(readings, redraws)


def _readings(parameters: Parameters, streams: Streams, attempt: int) -> tuple[Reading, ...] | None:
    """None where none is bad, or half of them and more."""
    readings = tuple(
        Reading(
            id=f"{streams.at('id', index, attempt).word():016x}"[:12],
            bad=streams.at("bad", index, attempt).chance(parameters.bad_share),
            value=streams.at("value", index, attempt).uniform(LOW, HIGH),
        )
        for index in range(parameters.readings)
    )
    bad = sum(reading.bad for reading in readings)
    return readings if 0 < bad < len(readings) / 2 else None

"""Draws: which galaxies there are, what is known of each, and what is not; and the relations
between what is measured and what is sought.

Plain ``math`` on single numbers: array functions may differ in the last bit between processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from generators.physics.hubble_constant.estimate import Point, estimate_constant
from generators.physics.hubble_constant.parameters import (
    COLUMNS,
    CONSTANT_RANGE,
    DISTANCE_RANGE,
    EXCESS_DECIMALS,
    EXCESS_RANGE,
    EXTINCTION,
    FAINTEST,
    LARGEST_ERROR,
    LIGHT,
    MAGNITUDE_DECIMALS,
    P_MISSING,
    PERIOD_DECIMALS,
    PERIOD_RANGE,
    SCATTER,
    SLOPE,
    ZERO_POINT,
    Parameters,
)
from generators.physics.spectra import distinct_ids, draw_lines
from generators.seed import Streams, redraw
from generators.stream import Stream

_Z_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A galaxy's redshift, and which of the laboratory's lines its spectrum shows."""

    z: float
    kept: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Cepheid:
    """Its mean magnitude, its error and the colour excess E(B−V), and its period (days) as they
    are written; None if not measured. All that is photometry is missing together."""

    id: str
    magnitude: float | None
    error: float | None
    excess: float | None
    period: float | None


@dataclass(frozen=True, slots=True)
class Galaxy:
    """A galaxy; usable if it has a spectrum and a Cepheid with magnitude and period."""

    id: str
    motion: float  # dispersion of its random velocity, km/s
    spectrum: Spectrum | None
    cepheid: Cepheid | None

    @property
    def point(self) -> Point | None:
        """What a usable galaxy adds to Hubble's law; None for any other."""
        cepheid = self.cepheid
        if self.spectrum is None or cepheid is None or cepheid.period is None:
            return None
        if cepheid.magnitude is None or cepheid.error is None or cepheid.excess is None:
            return None
        away = distance(cepheid.magnitude, cepheid.excess, cepheid.period)
        return Point(self.spectrum.z, self.motion, away, cepheid.error)


@dataclass(frozen=True, slots=True)
class Sample:
    """The universe's Hubble constant, the galaxies in the order of the table, and the number of
    the laboratory's plate."""

    constant: float
    galaxies: tuple[Galaxy, ...]
    plate: str
    redraws: int


class _Presence(NamedTuple):
    """The dispersion of a galaxy's random velocity, and flags of the data present for it."""

    motion: float
    spectrum: bool
    cepheid: bool
    magnitude: bool
    period: bool

    @property
    def usable(self) -> bool:
        """True if all that the analysis needs is present."""
        return self.spectrum and self.cepheid and self.magnitude and self.period


class _Measured(NamedTuple):
    """What is measured of a galaxy with a spectrum or a Cepheid."""

    z: float
    magnitude: float
    error: float
    excess: float
    period: float


def absolute_magnitude(period: float) -> float:
    """Of a Cepheid with this period in days."""
    return SLOPE * (math.log10(period) - 1.0) + ZERO_POINT


def apparent_magnitude(period: float, distance: float, excess: float) -> float:
    """Of a Cepheid with this period (days) at this distance (Mpc), behind dust."""
    modulus = 5.0 * math.log10(distance) + 25.0
    return absolute_magnitude(period) + modulus + EXTINCTION * excess


def distance(magnitude: float, excess: float, period: float) -> float:
    """In Mpc, from the distance modulus without extinction."""
    modulus = magnitude - EXTINCTION * excess - absolute_magnitude(period)
    return math.pow(10.0, (modulus - 25.0) / 5.0)


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    constant = streams.at("constant").uniform(*CONSTANT_RANGE)
    present, redraws = redraw(
        lambda attempt: _presences(parameters, streams, attempt), "usable galaxies"
    )
    measured, attempt = redraw(
        lambda attempt: _measurements(parameters, constant, present, streams, attempt),
        "measurements",
    )
    redraws += attempt
    names = distinct_ids("GID", parameters.galaxies, streams.at("galaxy-ids"))
    cepheid_names = distinct_ids("HDD", parameters.galaxies, streams.at("cepheid-ids"))
    galaxies = []
    for index, (has, values) in enumerate(zip(present, measured, strict=True)):
        spectrum = cepheid = None
        if values and has.spectrum:
            kept, attempt = draw_lines(values.z, parameters.p_line, streams, index)
            spectrum = Spectrum(values.z, kept)
            redraws += attempt
        if values and has.cepheid:
            cepheid = _cepheid(cepheid_names[index], has, values)
        galaxies.append(Galaxy(names[index], has.motion, spectrum, cepheid))
    return Sample(constant, tuple(galaxies), distinct_ids("", 1, streams.at("plate"))[0], redraws)


def _presences(
    parameters: Parameters, streams: Streams, attempt: int
) -> tuple[_Presence, ...] | None:
    """Draw the data present for each galaxy; None if too few are usable for a fit."""
    present = tuple(
        _presence(parameters, streams.at("presence", index, attempt))
        for index in range(parameters.galaxies)
    )
    return present if sum(has.usable for has in present) >= parameters.usable else None


def _presence(parameters: Parameters, stream: Stream) -> _Presence:
    return _Presence(
        motion=float(round(stream.uniform(parameters.slowest, parameters.fastest))),
        spectrum=stream.chance(parameters.p_spectrum),
        cepheid=stream.chance(parameters.p_cepheid),
        magnitude=not stream.chance(P_MISSING),
        period=not stream.chance(P_MISSING),
    )


def _measurements(
    parameters: Parameters,
    constant: float,
    present: tuple[_Presence, ...],
    streams: Streams,
    attempt: int,
) -> tuple[_Measured | None, ...] | None:
    """Draw what is measured of each galaxy, if anything is; None if a star is fainter than
    telescopes reach, or if the best estimate errs so much that it would not be taken for right."""
    measured = tuple(
        _measure(parameters, constant, has.motion, streams.at("galaxy", index, attempt))
        if has.spectrum or has.cepheid
        else None
        for index, has in enumerate(present)
    )
    points = [
        Point(*(each.z, has.motion, distance(each.magnitude, each.excess, each.period), each.error))
        for has, each in zip(present, measured, strict=True)
        if each and has.usable
    ]
    best = estimate_constant(points)
    errs = abs(best.constant - constant) > LARGEST_ERROR * best.error
    faint = any(each and each.magnitude > FAINTEST for each in measured)
    return None if errs or faint else measured


def _measure(parameters: Parameters, constant: float, motion: float, stream: Stream) -> _Measured:
    """One galaxy. The period is uniform in its logarithm; the magnitude errs about its relation
    by SCATTER and by its photometry."""
    away = stream.uniform(*DISTANCE_RANGE)
    z = round((constant * away + stream.normal(0.0, motion)) / LIGHT, _Z_DECIMALS)
    shortest, longest = map(math.log10, PERIOD_RANGE)
    period = round(math.pow(10.0, stream.uniform(shortest, longest)), PERIOD_DECIMALS)
    excess = round(stream.uniform(*EXCESS_RANGE), EXCESS_DECIMALS)
    low, high = parameters.smallest_error, parameters.largest_error
    error = round(stream.uniform(low, high), MAGNITUDE_DECIMALS)
    scatter = stream.normal(0.0, math.hypot(SCATTER, error))
    magnitude = round(apparent_magnitude(period, away, excess) + scatter, MAGNITUDE_DECIMALS)
    return _Measured(z, magnitude, error, excess, period)


def _cepheid(name: str, has: _Presence, values: _Measured) -> Cepheid:
    period = values.period if has.period else None
    if not has.magnitude:
        return Cepheid(name, None, None, None, period)
    return Cepheid(name, values.magnitude, values.error, values.excess, period)


def write_table(sample: Sample) -> bytes:
    """A row for each galaxy; missing values are left empty."""
    lines = [",".join(COLUMNS), *(_row(galaxy) for galaxy in sample.galaxies)]
    return ("\n".join(lines) + "\n").encode("ascii")


def _row(galaxy: Galaxy) -> str:
    cepheid, motion = galaxy.cepheid, _fixed(galaxy.motion, 0)
    if cepheid is None:
        return f"{galaxy.id},{motion},,,,,"
    values = (
        (cepheid.magnitude, MAGNITUDE_DECIMALS),
        (cepheid.error, MAGNITUDE_DECIMALS),
        (cepheid.excess, EXCESS_DECIMALS),
        (cepheid.period, PERIOD_DECIMALS),
    )
    written = (_fixed(value, decimals) for value, decimals in values)
    return ",".join((galaxy.id, motion, cepheid.id, *written))


def _fixed(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"

"""Draws: which galaxies there are, what is known of each, and what is not; and the relations
between what is measured and what is sought (spec/physics.md, §3).

Plain ``math`` on single numbers: array functions may differ in the last bit between processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from generators.physics.hubble_constant.parameters import (
    COLUMNS,
    CONSTANT_RANGE,
    DECOY_RANGE,
    LIGHT,
    MAGNITUDE_DECIMALS,
    P_MISSING,
    PERIOD_DECIMALS,
    PERIOD_RANGE,
    REDSHIFT_RANGE,
    SCATTER,
    SLOPE,
    ZERO_POINT,
    Parameters,
)
from generators.physics.spectra import distinct_ids, draw_lines
from generators.seed import Streams, redraw
from generators.stream import Stream


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A galaxy's redshift, and which of the laboratory's lines its spectrum shows."""

    z: float
    kept: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Cepheid:
    """Its mean magnitude and period (days) as they are written; None if not measured."""

    id: str
    magnitude: float | None
    period: float | None


@dataclass(frozen=True, slots=True)
class Galaxy:
    """A galaxy; usable where it has a spectrum and a Cepheid with magnitude and period."""

    id: str
    spectrum: Spectrum | None
    cepheid: Cepheid | None


@dataclass(frozen=True, slots=True)
class Sample:
    """The galaxies in the order of the table, and the number of the laboratory's plate."""

    galaxies: tuple[Galaxy, ...]
    plate: str
    redraws: int


class _Presence(NamedTuple):
    """Flags of the data present for a galaxy; it is usable if all are."""

    spectrum: bool
    cepheid: bool
    magnitude: bool
    period: bool


def velocity(z: float) -> float:
    """The relativistic Doppler velocity (km/s) of a redshift: here a convention."""
    ratio = (1.0 + z) * (1.0 + z)
    return LIGHT * (ratio - 1.0) / (ratio + 1.0)


def absolute_magnitude(period: float) -> float:
    """Of a Cepheid with this period in days."""
    return SLOPE * (math.log10(period) - 1.0) + ZERO_POINT


def apparent_magnitude(period: float, distance: float) -> float:
    """Of a Cepheid with this period (days) at this distance (Mpc)."""
    return absolute_magnitude(period) + 5.0 * math.log10(distance) + 25.0


def distance(magnitude: float, period: float) -> float:
    """In Mpc, from the distance modulus."""
    return math.pow(10.0, (magnitude - absolute_magnitude(period) - 25.0) / 5.0)


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    constant = streams.at("constant").uniform(*CONSTANT_RANGE)
    present, redraws = redraw(
        lambda attempt: _presences(parameters, streams, attempt), "usable galaxies"
    )
    names = distinct_ids("GID", parameters.galaxies, streams.at("galaxy-ids"))
    cepheid_names = distinct_ids("HDD", parameters.galaxies, streams.at("cepheid-ids"))
    galaxies = []
    for index, has in enumerate(present):
        spectrum = cepheid = None
        if has.spectrum:
            z = streams.at("redshift", index).uniform(*REDSHIFT_RANGE)
            kept, attempt = draw_lines(z, parameters.p_line, streams, index)
            spectrum = Spectrum(z, kept)
            redraws += attempt
        if has.cepheid:
            stream = streams.at("cepheid", index)
            cepheid = _cepheid(cepheid_names[index], has, spectrum, constant, stream)
        galaxies.append(Galaxy(names[index], spectrum, cepheid))
    return Sample(tuple(galaxies), distinct_ids("", 1, streams.at("plate"))[0], redraws)


def _presences(
    parameters: Parameters, streams: Streams, attempt: int
) -> tuple[_Presence, ...] | None:
    """Draw the data present for each galaxy; None if too few are usable for a fit."""
    present = tuple(
        _presence(parameters, streams.at("presence", index, attempt))
        for index in range(parameters.galaxies)
    )
    return present if sum(map(all, present)) >= parameters.usable else None


def _presence(parameters: Parameters, stream: Stream) -> _Presence:
    return _Presence(
        spectrum=stream.chance(parameters.p_spectrum),
        cepheid=stream.chance(parameters.p_cepheid),
        magnitude=not stream.chance(P_MISSING),
        period=not stream.chance(P_MISSING),
    )


def _cepheid(
    name: str, has: _Presence, spectrum: Spectrum | None, constant: float, stream: Stream
) -> Cepheid:
    """The period is uniform in its logarithm; the magnitude errs by SCATTER about its relation."""
    shortest, longest = map(math.log10, PERIOD_RANGE)
    period = round(math.pow(10.0, stream.uniform(shortest, longest)), PERIOD_DECIMALS)
    scatter = stream.normal(0.0, SCATTER)
    elsewhere = stream.uniform(*DECOY_RANGE)
    distance = elsewhere if spectrum is None else velocity(spectrum.z) / constant
    magnitude = round(apparent_magnitude(period, distance) + scatter, MAGNITUDE_DECIMALS)
    return Cepheid(name, magnitude if has.magnitude else None, period if has.period else None)


def write_table(sample: Sample) -> bytes:
    """A row for each galaxy; missing values are left empty."""
    lines = [",".join(COLUMNS), *(_row(galaxy) for galaxy in sample.galaxies)]
    return ("\n".join(lines) + "\n").encode("ascii")


def _row(galaxy: Galaxy) -> str:
    cepheid = galaxy.cepheid
    if cepheid is None:
        return f"{galaxy.id},,,"
    magnitude = _fixed(cepheid.magnitude, MAGNITUDE_DECIMALS)
    return f"{galaxy.id},{cepheid.id},{magnitude},{_fixed(cepheid.period, PERIOD_DECIMALS)}"


def _fixed(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"

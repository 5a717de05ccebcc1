"""Draws: the relation, the galaxies, what is known of their Cepheids, and their lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.physics.cepheid_calibration.parameters import (
    DECIMALS,
    DECOYS,
    FAINTEST,
    FEWEST_ROWS,
    HUBBLE,
    LIGHT_SPEED,
    NEAREST,
    OFFSETS,
    P_LINE,
    P_MISSING,
    PERIODS,
    REACH,
    SCATTER,
    SLOPES,
    SMALLEST_SPREAD,
    Parameters,
)
from generators.physics.spectra import distinct_ids, draw_lines
from generators.seed import Streams, redraw
from generators.stream import Stream

_Z_DECIMALS = 12
_HEADER = "galaxy_ID,cepheid_ID,mean_mag_cepheid,period [days]"


@dataclass(frozen=True, slots=True)
class Relation:
    """M = slope (log10 P − 1) + offset."""

    slope: float
    offset: float


@dataclass(frozen=True, slots=True)
class Galaxy:
    """A galaxy, its redshift where it has a spectrum, and its Cepheid where it has one:
    mean magnitude and period (days) as they are written, each where it is known."""

    id: str
    z: float | None
    cepheid: str | None
    magnitude: float | None
    period: float | None

    @property
    def is_complete(self) -> bool:
        """True if all values of the galaxy that the task needs are given."""
        return None not in (self.z, self.cepheid, self.magnitude, self.period)


@dataclass(frozen=True, slots=True)
class Sample:
    """The galaxies in the order of the file, the lines that each spectrum shows, by galaxy, and
    the Cepheids without a spectrum that have a criterion of their own; the number of the
    laboratory's plate, so that no two instances share its picture."""

    relation: Relation
    galaxies: tuple[Galaxy, ...]
    lines: tuple[tuple[str, tuple[bool, ...]], ...]
    decoys: tuple[str, ...]
    plate: str
    redraws: int


def distance_of(z: float) -> float:
    """In Mpc, with v = cz = H₀ d."""
    return LIGHT_SPEED * z / HUBBLE


def farthest_z(relation: Relation) -> float:
    """The redshift at which a Cepheid of the shortest period, and so the faintest, has the mean
    magnitude REACH."""
    absolute = relation.slope * (math.log10(PERIODS[0]) - 1.0) + relation.offset
    return math.pow(10.0, (REACH - absolute - 25.0) / 5.0) * HUBBLE / LIGHT_SPEED


def spread(values: Sequence[float]) -> float:
    """Sum of squares about the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    relation = _relation(streams.at("relation"))
    galaxies, redraws = redraw(
        lambda attempt: _galaxies(parameters, relation, streams, attempt), "complete rows"
    )
    lines = []
    for index, galaxy in enumerate(galaxies):
        if galaxy.z is not None:
            kept, attempt = draw_lines(galaxy.z, P_LINE, streams, index)
            lines.append((galaxy.id, kept))
            redraws += attempt
    return Sample(
        relation=relation,
        galaxies=galaxies,
        lines=tuple(lines),
        decoys=_decoys(galaxies, streams),
        plate=distinct_ids("L_", 1, streams.at("plate"))[0],
        redraws=redraws,
    )


def _relation(stream: Stream) -> Relation:
    return Relation(stream.uniform(*SLOPES), stream.uniform(*OFFSETS))


def _galaxies(
    parameters: Parameters, relation: Relation, streams: Streams, attempt: int
) -> tuple[Galaxy, ...] | None:
    """All galaxies; None if too few rows are complete, or too alike in period."""
    names = distinct_ids("G_", parameters.galaxies, streams.at("galaxy-ids", 0, attempt))
    cepheids = distinct_ids("CEPH_", parameters.galaxies, streams.at("cepheid-ids", 0, attempt))
    galaxies = tuple(
        draw_galaxy(parameters, relation, ids, streams.at("galaxy", index, attempt))
        for index, ids in enumerate(zip(names, cepheids, strict=True))
    )
    return None if is_degenerate(galaxies) else galaxies


def draw_galaxy(
    parameters: Parameters, relation: Relation, ids: tuple[str, str], stream: Stream
) -> Galaxy:
    """One galaxy. All is drawn, used or not, so that no probability shifts another draw."""
    has_spectrum = stream.chance(parameters.p_spectrum)
    farthest = farthest_z(relation)
    z = round(stream.uniform(NEAREST * farthest, farthest), _Z_DECIMALS)
    has_cepheid = stream.chance(parameters.p_cepheid)
    low, high = PERIODS
    period = round(10.0 ** stream.uniform(math.log10(low), math.log10(high)), DECIMALS)
    scatter = stream.normal(0.0, SCATTER)
    has_magnitude = not stream.chance(P_MISSING)
    has_period = not stream.chance(P_MISSING)
    absolute = relation.slope * (math.log10(period) - 1.0) + relation.offset
    magnitude = round(absolute + 5.0 * math.log10(distance_of(z)) + 25.0 + scatter, DECIMALS)
    return Galaxy(
        ids[0],
        z if has_spectrum else None,
        ids[1] if has_cepheid else None,
        magnitude if has_cepheid and has_magnitude else None,
        period if has_cepheid and has_period else None,
    )


def is_degenerate(galaxies: Sequence[Galaxy]) -> bool:
    """True if fewer than 8 rows are complete, if their log10 P spread by less than 0.5, or if a
    star is fainter than a telescope reaches."""
    periods = [math.log10(galaxy.period or 1.0) for galaxy in galaxies if galaxy.is_complete]
    if len(periods) < FEWEST_ROWS or spread(periods) < SMALLEST_SPREAD:
        return True
    return any((galaxy.magnitude or 0.0) > FAINTEST for galaxy in galaxies)


def _decoys(galaxies: Sequence[Galaxy], streams: Streams) -> tuple[str, ...]:
    unseen = [galaxy.cepheid for galaxy in galaxies if galaxy.cepheid and galaxy.z is None]
    return streams.at("decoys").shuffle(unseen)[:DECOYS]


def write_table(galaxies: tuple[Galaxy, ...]) -> bytes:
    """One line per galaxy; missing values are left empty."""
    rows = (
        f"{galaxy.id},{galaxy.cepheid or ''},{_write(galaxy.magnitude)},{_write(galaxy.period)}\n"
        for galaxy in galaxies
    )
    return f"{_HEADER}\n{''.join(rows)}".encode("ascii")


def _write(value: float | None) -> str:
    return "" if value is None else f"{value:.{DECIMALS}f}"

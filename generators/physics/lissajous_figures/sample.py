"""Draws: the maker of each supply, the tested ones, and the pictures of the oscilloscope."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from generators.physics.lissajous_figures.parameters import (
    AMPLITUDES,
    FITTING_OHM,
    INDUCTANCE_DECIMALS,
    MISFIT,
    OPENNESS,
    TIP_GAP,
    TURN,
    UNIT,
    Parameters,
    Ratio,
)
from generators.seed import Streams, redraw
from generators.stream import Stream

K = TypeVar("K")

_MACHINE_LENGTH = 6
_SUPPLY_DIGITS = 10
_MEASUREMENT_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Figure:
    """x = width·cos(pτ + delta), y = height·cos(qτ): a closed curve.

    ``delta`` is in parts of a TURN; ``width`` and ``height`` are in quarters of a pixel, and
    negative where the sign is flipped.
    """

    ratio: Ratio
    delta: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One power supply; one that was not tested has no measurement and no figure."""

    day: int
    supply_id: str
    machine: str
    batch: str
    measurement_id: str
    figure: Figure | None


@dataclass(frozen=True, slots=True)
class Sample:
    """The units in the order of the table, and the coils in that of theirs."""

    units: tuple[Unit, ...]
    coils: tuple[tuple[str, str], ...]  # name, inductance as it is written
    redraws: int


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place of a unit: the machine that makes it, and its number among those of its kind."""

    machine: int
    kind: str
    index: int
    fails: bool = False

    def stream(self, streams: Streams, what: str, attempt: int = 0) -> Stream:
        return streams.at(f"{what}/{self.kind}", self.index, attempt)


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    tested = tuple(_tested(parameters, streams))
    slots = (*tested, *_untested(parameters, streams))
    faulty = [slot for slot in tested if slot.fails]
    with_zero = set(streams.at("zeros").shuffle(faulty)[: parameters.zeros])

    def machine_name(machine: int, attempt: int) -> str:
        """A letter and five letters or digits: nothing that reads as a number."""
        stream = streams.at("machine", machine, attempt)
        letters = string.ascii_uppercase
        rest = (stream.choice(letters + string.digits) for _ in range(_MACHINE_LENGTH - 1))
        return stream.choice(letters) + "".join(rest)

    def supply_name(slot: _Slot, attempt: int) -> str:
        digits = _SUPPLY_DIGITS - (slot in with_zero)
        number = slot.stream(streams, "supply", attempt).integer(0, 10**digits - 1)
        return f"{number:0{_SUPPLY_DIGITS}d}"

    def measurement_name(slot: _Slot, attempt: int) -> str:
        stream = slot.stream(streams, "measurement", attempt)
        return f"{stream.integer(0, 10**_MEASUREMENT_DIGITS - 1):0{_MEASUREMENT_DIGITS}d}"

    fitting = _draw_fitting(parameters, streams)
    figures, redraws = _figures(parameters, streams, tested, fitting)
    supplies, supply_redraws = _distinct(supply_name, slots)
    measurements, measurement_redraws = _distinct(measurement_name, tested)
    machines, machine_redraws = _distinct(machine_name, range(parameters.machines))
    rows = []
    for slot in slots:
        making = slot.stream(streams, "making")
        unit = Unit(
            day=making.integer(1, parameters.days),
            batch=making.choice(string.ascii_uppercase[: parameters.batches]),
            supply_id=supplies[slot],
            machine=machines[slot.machine],
            measurement_id=measurements.get(slot, ""),
            figure=figures.get(slot),
        )
        rows.append(((unit.day, making.word(), unit.supply_id), unit))
    rows.sort(key=lambda row: row[0])  # by day, and at random within it
    redraws += supply_redraws + measurement_redraws + machine_redraws
    coils = _draw_coils(parameters, streams, fitting)
    return Sample(tuple(unit for _, unit in rows), coils, redraws)


def _draw_fitting(parameters: Parameters, streams: Streams) -> frozenset[Ratio]:
    """The ratios that a coil fits: one of each pair."""
    return frozenset(
        streams.at("fitting", index).choice(pair) for index, pair in enumerate(parameters.ratios)
    )


def _draw_coils(
    parameters: Parameters, streams: Streams, fitting: frozenset[Ratio]
) -> tuple[tuple[str, str], ...]:
    """A coil for each ratio: it fits, or nearly so. Their order has no meaning."""
    written = []
    for index, ratio in enumerate(itertools.chain(*parameters.ratios)):
        stream = streams.at("coil", index)
        impedance = stream.uniform(*FITTING_OHM)
        if ratio not in fitting:
            impedance *= 1 + stream.uniform(*MISFIT) * stream.choice((-1, 1))
        inductance = impedance / (2 * math.pi * float(ratio.hertz))
        written.append(f"{inductance:.{INDUCTANCE_DECIMALS}f}")
    ordered = streams.at("coils").shuffle(written)
    return tuple((f"L{number}", inductance) for number, inductance in enumerate(ordered, 1))


def _distinct(draw: Callable[[K, int], str], keys: Iterable[K]) -> tuple[dict[K, str], int]:
    """A name for each key that no other has, and how many draws gave one that was taken."""
    names: dict[K, str] = {}
    taken: set[str] = set()
    redraws = 0

    def free(key: K, attempt: int) -> str | None:
        name = draw(key, attempt)
        return None if name in taken else name

    for key in keys:
        names[key], attempt = redraw(partial(free, key), "identifier")
        taken.add(names[key])
        redraws += attempt
    return names, redraws


def _tested(parameters: Parameters, streams: Streams) -> Iterator[_Slot]:
    """The tested units of each machine, of which as many fail as its range says."""
    ranges = streams.at("ranges").shuffle(parameters.faults)
    for machine, (low, high) in enumerate(ranges):
        faults = streams.at("faults", machine).integer(low, high)
        for index in range(parameters.tested):
            yield _Slot(machine, f"tested-{machine}", index, index < faults)


def _untested(parameters: Parameters, streams: Streams) -> Iterator[_Slot]:
    for index in range(parameters.units - parameters.tested * parameters.machines):
        machine = streams.at("maker", index).integer(0, parameters.machines - 1)
        yield _Slot(machine, "untested", index)


def _figures(
    parameters: Parameters, streams: Streams, tested: Sequence[_Slot], fitting: frozenset[Ratio]
) -> tuple[dict[_Slot, Figure], int]:
    """The figure of each tested unit, and how many were drawn again."""
    ratios = _ratios(parameters, streams, tested, fitting)
    figures, redraws = {}, 0
    for slot in tested:
        figures[slot], attempt = redraw(partial(_figure, streams, slot, ratios[slot]), "figure")
        redraws += attempt
    return figures, redraws


def _ratios(
    parameters: Parameters, streams: Streams, tested: Sequence[_Slot], fitting: frozenset[Ratio]
) -> dict[_Slot, Ratio]:
    """The ratio of each unit. Among the good ones, and among the faulty ones, each possible ratio
    occurs as often as any other, or once more: instances are equally hard to read."""
    ratios: dict[_Slot, Ratio] = {}
    for fails in (False, True):
        stream = streams.at("frequencies", int(fails))
        slots = stream.shuffle([slot for slot in tested if slot.fails is fails])
        possible = stream.shuffle(
            [ratio for pair in parameters.ratios for ratio in pair if (ratio in fitting) != fails]
        )
        ratios.update(zip(slots, itertools.cycle(possible), strict=False))
    return ratios


def _figure(streams: Streams, slot: _Slot, ratio: Ratio, attempt: int) -> Figure | None:
    return draw_figure(ratio, slot.stream(streams, "figure", attempt))


def draw_figure(ratio: Ratio, stream: Stream) -> Figure | None:
    """A figure of this ratio; None if two of its tips are too close to tell apart."""
    openness = stream.uniform(*OPENNESS) * stream.choice((-1, 1))
    # q·delta is so far from a multiple of half a turn.
    halves = stream.integer(0, 2 * ratio.q - 1) + openness
    delta = round(halves * TURN / (2 * ratio.q)) % TURN
    width, height = (
        round(stream.uniform(*AMPLITUDES) * UNIT * 4) * stream.choice((-1, 1)) for _ in range(2)
    )
    figure = Figure(ratio, delta, width, height)
    return figure if tip_gap(figure) >= TIP_GAP else None


def tip_gap(figure: Figure) -> float:
    """The smallest distance in pixels of two tips on one edge of the figure's box."""
    p, q = figure.ratio.p, figure.ratio.q
    phase = 2 * math.pi * figure.delta / TURN
    edges = []
    for half in (0.0, math.pi):  # upper and lower edge, then right and left edge
        across = [math.cos(p * (2 * math.pi * k + half) / q + phase) for k in range(q)]
        along = [math.cos(q * (2 * math.pi * k + half - phase) / p) for k in range(p)]
        edges.append(sorted(abs(figure.width) / 4 * place for place in across))
        edges.append(sorted(abs(figure.height) / 4 * place for place in along))
    gaps = (b - a for edge in edges for a, b in itertools.pairwise(edge))
    return min(gaps, default=math.inf)

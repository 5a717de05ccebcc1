"""Draws: the maker of each supply, the tested ones, and the pictures of the oscilloscope."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from generators.physics.lissajous_figures.parameters import (
    AMPLITUDES,
    OPENNESS,
    TIP_GAP,
    TURN,
    UNIT,
    Parameters,
    Ratio,
)
from generators.seed import Streams, redraw
from generators.stream import Stream

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
    """The units in the order of the table."""

    units: tuple[Unit, ...]
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
    """Raises GuardExhausted where a draw stays degenerate."""
    tested = tuple(_tested(parameters, streams))
    untested = tuple(_untested(parameters, streams))
    figures, redraws = _figures(parameters, streams, tested)
    names = _Names(parameters, streams)
    zeros = streams.at("zeros").shuffle([slot for slot in tested if slot.fails])
    supplies = names.supplies((*tested, *untested), zeros[: parameters.zeros])
    measurements = (*names.measurements(tested), *("" for _ in untested))
    shown = (*figures, *(None for _ in untested))
    machines = names.machines()
    drawn = zip((*tested, *untested), supplies, measurements, shown, strict=True)
    rows = [
        _row(
            parameters,
            slot.stream(streams, "making"),
            machines[slot.machine],
            supply,
            measurement,
            figure,
        )
        for slot, supply, measurement, figure in drawn
    ]
    rows.sort(key=lambda row: row[0])
    return Sample(tuple(unit for _, unit in rows), redraws + names.redraws)


def _row(
    parameters: Parameters,
    making: Stream,
    machine: str,
    supply: str,
    measurement: str,
    figure: Figure | None,
) -> tuple[tuple[int, int, str], Unit]:
    """A unit and its place in the table: by day, and at random within it."""
    day = making.integer(1, parameters.days)
    batch = making.choice(string.ascii_uppercase[: parameters.batches])
    place = (day, making.word(), supply)
    return place, Unit(day, supply, machine, batch, measurement, figure)


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
    parameters: Parameters, streams: Streams, tested: Sequence[_Slot]
) -> tuple[list[Figure], int]:
    """The figure of each tested unit, and how many were drawn again."""
    ratios, redraws = redraw(partial(_ratios, parameters, streams, tested), "frequencies")
    figures = []
    for slot, ratio in zip(tested, ratios, strict=True):
        figure, attempt = redraw(partial(_figure, streams, slot, ratio), "figure")
        figures.append(figure)
        redraws += attempt
    return figures, redraws


def _ratios(
    parameters: Parameters, streams: Streams, tested: Sequence[_Slot], attempt: int
) -> tuple[Ratio, ...] | None:
    """Uniform among the good or the faulty ones; None where all faulty units share one, since
    one guess would then meet them all."""
    ratios = tuple(
        slot.stream(streams, "frequency", attempt).choice(
            [ratio for ratio in parameters.ratios if ratio.is_good != slot.fails]
        )
        for slot in tested
    )
    faulty = {ratio for slot, ratio in zip(tested, ratios, strict=True) if slot.fails}
    return ratios if len(faulty) > 1 else None


def _figure(streams: Streams, slot: _Slot, ratio: Ratio, attempt: int) -> Figure | None:
    return draw_figure(ratio, slot.stream(streams, "figure", attempt))


def draw_figure(ratio: Ratio, stream: Stream) -> Figure | None:
    """A figure of this ratio; None where two of its tips are too close to tell apart."""
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


class _Names:
    """Draws identifiers without replacement. ``redraws`` counts those that were taken."""

    def __init__(self, parameters: Parameters, streams: Streams) -> None:
        self._parameters = parameters
        self._streams = streams
        self._taken: set[str] = set()
        self.redraws = 0

    def machines(self) -> tuple[str, ...]:
        """A letter and five letters or digits each: nothing that reads as a number."""

        def draw(machine: int, attempt: int) -> str | None:
            stream = self._streams.at("machine", machine, attempt)
            letters = string.ascii_uppercase
            rest = (stream.choice(letters + string.digits) for _ in range(_MACHINE_LENGTH - 1))
            return self._free(stream.choice(letters) + "".join(rest))

        return tuple(
            self._take(partial(draw, machine)) for machine in range(self._parameters.machines)
        )

    def supplies(self, slots: Sequence[_Slot], zeros: Sequence[_Slot]) -> tuple[str, ...]:
        """Ten digits each, of which those of ``zeros`` begin with 0."""
        return tuple(
            self._digits("supply", slot, _SUPPLY_DIGITS, int(slot in zeros)) for slot in slots
        )

    def measurements(self, slots: Sequence[_Slot]) -> tuple[str, ...]:
        """Twelve digits each."""
        return tuple(self._digits("measurement", slot, _MEASUREMENT_DIGITS, 0) for slot in slots)

    def _digits(self, what: str, slot: _Slot, digits: int, zeros: int) -> str:
        def draw(attempt: int) -> str | None:
            number = slot.stream(self._streams, what, attempt).integer(
                0, 10 ** (digits - zeros) - 1
            )
            return self._free(f"{number:0{digits}d}")

        return self._take(draw)

    def _free(self, name: str) -> str | None:
        return None if name in self._taken else name

    def _take(self, draw: Callable[[int], str | None]) -> str:
        name, attempt = redraw(draw, "identifier")
        self._taken.add(name)
        self.redraws += attempt
        return name

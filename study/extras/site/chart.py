"""The figure of findings: gap with interval by release date, as places in an SVG that is as wide as
its page. Places across are percentages, and places down are pixels, so that text keeps its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from study.extras.site.rows import Row

HIGH, TOP, FOOT = 340, 16, 40  # pixels: the figure, and the space above and below its axes
_LEFT, _RIGHT, _BETWEEN = 9.0, 97.0, 7.0  # percent: the axis of days, and the space beside it
_LEAST, _SHARE = 6.0, 60.0  # percent that undated models have: at the least, and if all are
_WIDE, _LETTER, _LINE = 1000, 6.8, 13  # pixels: of a wide page, and of text on it
_STEPS = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding in the figure; without a gap it is not drawn. ``label`` is "" without room."""

    row: Row
    x: float
    y: float
    ends: tuple[float, float]  # of the interval, the upper first
    label: str = ""
    left: bool = False  # of the mark stands its label


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: its marks, lines across with their gaps, and ticks with their days. ``undated`` is
    the place of models without a date, None if all have one, or none has."""

    marks: tuple[Mark, ...]
    zero: float
    margin: float
    lines: tuple[tuple[float, float], ...]
    ticks: tuple[tuple[float, str], ...]
    undated: float | None


def draw_chart(rows: Sequence[Row], margin: float, name: Callable[[Row], str]) -> Chart | None:
    """Place findings by release date, or in their order if none has one; ``name`` labels them.
    None if no finding has a gap."""
    shown = [row for row in rows if row.found.estimate is not None]
    if not shown:
        return None
    ends = [end for row in shown for end in (*row.found.interval, row.found.estimate or 0.0)]
    down = _scale(ends, margin)
    days = [_day(row) for row in shown]
    dated = [day for day in days if day is not None]
    undated = _RIGHT - max(_LEAST, _SHARE * (1 - len(dated) / len(days)))
    mixed = 0 < len(dated) < len(days)
    right = undated - _BETWEEN if mixed else _RIGHT
    along = _Along(min(dated, default=0.0), max(dated, default=0.0), right)
    places = _even(len(days), _LEFT, _RIGHT)
    if dated:
        placed = iter(_apart([along.place(day) for day in dated], along.right))
        rest = iter(_even(len(days) - len(dated), undated, _RIGHT))
        places = [next(rest if day is None else placed) for day in days]
    marks = [
        Mark(row, x, down(row.found.estimate or 0.0), (down(high), down(low)))
        for row, x in zip(shown, places, strict=True)
        for low, high in [row.found.interval]
    ]
    return Chart(
        marks=tuple(_labelled(marks, name)),
        zero=down(0.0),
        margin=down(margin),
        lines=tuple((down(value), value) for value in _lines(down)),
        ticks=tuple(_ticks(along)) if dated else (),
        undated=undated if mixed else None,
    )


def _scale(ends: Sequence[float], margin: float) -> Callable[[float], float]:
    """Return the pixel of a gap, between limits that hold all, no gap and twice the margin."""
    low = max(-1.0, min(-margin, *ends) - 0.03)
    high = min(1.0, max(2 * margin, *ends) + 0.03)

    def down(gap: float) -> float:
        share = (min(max(gap, low), high) - low) / (high - low)
        return round(HIGH - FOOT - share * (HIGH - TOP - FOOT), 1)

    return down


def _lines(down: Callable[[float], float]) -> list[float]:
    """Return the gaps of at most eight lines across."""
    inside = range(-100, 101)
    for step in _STEPS:
        every = [k * step for k in inside if abs(k * step) <= 1]
        within = [gap for gap in every if TOP < down(gap) < HIGH - FOOT]
        if len(within) <= 8:
            return within
    return [0.0]


def _day(row: Row) -> float | None:
    return float(date.fromisoformat(row.released).toordinal()) if row.released else None


@dataclass(frozen=True, slots=True)
class _Along:
    """The axis of days."""

    first: float
    last: float
    right: float  # percent, of the last day

    def place(self, day: float) -> float:
        """Return the place of a day."""
        span = self.last - self.first
        return _LEFT + (self.right - _LEFT) * ((day - self.first) / span if span else 0.5)


def _even(count: int, left: float, right: float) -> list[float]:
    """Return places that share a width."""
    return [round(left + (right - left) * (n + 0.5) / count, 2) for n in range(count)]


def _apart(places: Sequence[float], right: float) -> list[float]:
    """Return the places with those that would touch side by side, around their middle."""
    step = min(1.1, (right - _LEFT) / len(places))
    order = sorted(range(len(places)), key=lambda number: places[number])
    groups: list[list[int]] = []
    for number in order:
        if not groups or places[number] - places[groups[-1][-1]] >= step:
            groups.append([])
        groups[-1].append(number)
    apart = [0.0] * len(places)
    for group in groups:
        middle = sum(places[number] for number in group) / len(group)
        half = step * (len(group) - 1) / 2
        middle = max(min(middle, right - half), _LEFT + half)
        for place, number in enumerate(group):
            apart[number] = round(middle - half + step * place, 2)
    return apart


def _ticks(along: _Along) -> Iterator[tuple[float, str]]:
    """Yield the places of at most five months, of fewer on a short axis, with their names."""
    most = max(2, int(5 * (along.right - _LEFT) / (_RIGHT - _LEFT)))
    first, last = (date.fromordinal(int(day)) for day in (along.first, along.last))
    months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    starts = [date(number // 12, number % 12 + 1, 1) for number in months]
    for step in _MONTHS:
        chosen = [day for day in starts if (day.year * 12 + day.month - 1) % step == 0]
        if len(chosen) <= most:
            break
    for day in chosen:
        x = along.place(float(day.toordinal()))
        if x >= _LEFT - 4:
            yield round(x, 2), f"{day:%b %Y}"


def _labelled(marks: Sequence[Mark], name: Callable[[Row], str]) -> Iterator[Mark]:
    """Yield the marks, with labels where a wide page has room: contaminated models first."""
    taken = [(m.x * _WIDE / 100 - 5, m.ends[0], m.x * _WIDE / 100 + 5, m.ends[1]) for m in marks]
    order = sorted(range(len(marks)), key=lambda n: (marks[n].row.kind != "contaminated", n))
    labels: dict[int, tuple[str, bool]] = {}
    for number in order:
        mark, text = marks[number], name(marks[number].row)
        for left in (False, True):
            box = _box(mark, text, left)
            if box[0] > 0 and box[2] < _WIDE and not any(_touch(box, other) for other in taken):
                taken.append(box)
                labels[number] = text, left
                break
    for number, mark in enumerate(marks):
        label, left = labels.get(number, ("", False))
        yield replace(mark, label=label, left=left)


_Box = tuple[float, float, float, float]


def _box(mark: Mark, text: str, left: bool) -> _Box:
    x, wide = mark.x * _WIDE / 100, len(text) * _LETTER
    start = x - 10 - wide if left else x + 10
    return start, mark.y - _LINE / 2, start + wide, mark.y + _LINE / 2


def _touch(one: _Box, other: _Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]

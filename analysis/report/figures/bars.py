"""Stacked bars: counts by category, a row or a cell each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.report.figures.style import (
    CATEGORIES,
    INK,
    MUTED,
    WIDE,
    add_axes,
    add_key,
    cut,
    draw_svg,
    label_width,
    new_figure,
    note,
)

_ROW, _FOOT = 0.34, 0.1  # inches
_KEY_COLUMNS = 4
_CELL, _CELL_HIGH = 0.42, 0.95  # inches, of a grid
_NUMBERED = 0.09  # of the longest bar: narrower parts have no room for a number
_LABEL = 26  # characters


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a count of each category, in the order that they are drawn."""

    label: str
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """The length of the bar."""
        return sum(self.counts.values())


def plot_bars(bars: Sequence[Bar], categories: Sequence[str], name: str, title: str) -> str:
    """A row for each bar, with its total. SVG text for inlining; its ids begin with ``name``."""
    head = _key_height(categories)
    height = head + _ROW * len(bars) + _FOOT
    figure = new_figure(WIDE, height)
    _add_key(figure, categories)
    left = label_width([cut(bar.label, _LABEL) for bar in bars]) / WIDE
    bottom = _FOOT / height
    axes = add_axes(figure, (left, bottom, 0.98 - left, 1 - head / height - bottom))
    longest = max([1, *(bar.total for bar in bars)])
    axes.set_xlim(0, 1.08 * longest)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [cut(bar.label, _LABEL) for bar in bars])
    _bare(axes)
    for y, bar in enumerate(bars):
        start = 0
        for category, count in _parts(bar, categories):
            axes.barh(y, count, left=start, height=0.7, color=_colour(categories, category))
            if count >= _NUMBERED * longest:
                _number(axes, start + count / 2, y, str(count))
            start += count
        note(axes, str(bar.total), (start, y), (5, 0), va="center")
    return draw_svg(figure, name, title, " ".join(map(_bar_words, bars)))


def plot_bar_grid(
    rows: Mapping[str, Mapping[int, Bar]],
    columns: Sequence[int],
    categories: Sequence[str],
    name: str,
    title: str,
) -> str:
    """A grid with a row for each label and a column for each number: the shares of the categories
    as a bar, and its total; a dash for a cell without a bar. SVG text for inlining in HTML."""
    left = label_width([cut(label, _LABEL) for label in rows])
    width = left + _CELL * len(columns) + 0.15
    height = 0.35 + _CELL_HIGH * len(rows)
    figure = new_figure(width, height)
    place = (left / width, 0.02, _CELL * len(columns) / width, 0.98 - 0.35 / height)
    axes = add_axes(figure, place)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [str(column) for column in columns])
    axes.set_yticks(range(len(rows)), [cut(label, _LABEL) for label in rows])
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", length=0, labelcolor=MUTED)
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    for y, cells in enumerate(rows.values()):
        for x, column in enumerate(columns):
            _draw_cell(axes, x, y, cells.get(column), categories)
    words = [
        f"{label}, {column}: {_bar_words(bar)}"
        for label, cells in rows.items()
        for column, bar in cells.items()
    ]
    return draw_svg(figure, name, title, " ".join(words))


def _draw_cell(axes: Any, x: int, y: int, bar: Bar | None, categories: Sequence[str]) -> None:
    total = 0 if bar is None else bar.total
    text = "–" if bar is None else str(total)
    axes.text(x, y + 0.42, text, ha="center", va="center", color=MUTED, fontsize=8)
    start = y - 0.45
    for category, count in _parts(bar, categories) if bar is not None else ():
        share = 0.75 * count / total
        axes.bar(x, share, bottom=start, width=0.72, color=_colour(categories, category))
        start += share


def _parts(bar: Bar, categories: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, bar.counts[name]) for name in categories if bar.counts.get(name)]


def _colour(categories: Sequence[str], category: str) -> str:
    return CATEGORIES[categories.index(category) % len(CATEGORIES)]


def _key_height(categories: Sequence[str]) -> float:
    return 0.15 + 0.2 * math.ceil(len(categories) / _KEY_COLUMNS)


def _add_key(figure: Any, categories: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    marks = [Patch(color=_colour(categories, category), label=category) for category in categories]
    add_key(figure, marks, 0.05, _KEY_COLUMNS)


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=8, labelcolor=INK)


def _number(axes: Any, x: float, y: float, text: str) -> None:
    axes.text(x, y, text, ha="center", va="center", color="white", fontsize=8, weight="bold")


def _bar_words(bar: Bar) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in bar.counts.items() if count)
    total = f"{bar.label}: {bar.total} calls" if bar.label else f"{bar.total} calls"
    return f"{total}: {counts}." if counts else f"{total}."

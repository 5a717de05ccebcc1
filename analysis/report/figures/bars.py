"""Stacked bars: counts by category, a row or a cell each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.report.figures import style

_ROW, _FOOT = 0.34, 0.1  # inches
_CELL, _CELL_HIGH, _GRID_HEAD = 0.42, 0.95, 0.35  # inches, of a grid
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


@style.styled
def plot_bars(bars: Sequence[Bar], categories: Sequence[str], name: str, title: str) -> str:
    """A row for each bar, with its total. SVG text for inlining; its ids begin with ``name``."""
    from matplotlib.patches import Patch

    colours = _colours(categories)
    marks = [Patch(color=colour, label=category) for category, colour in colours.items()]
    figure, key = style.keyed_figure(style.WIDE, _ROW * len(bars) + _FOOT, marks)
    labels = [style.cut(bar.label, _LABEL) for bar in bars]
    left = style.label_width(labels)
    axes = style.row_axes(figure, labels, left=left, head=key, foot=_FOOT)
    longest = max([1, *(bar.total for bar in bars)])
    axes.set_xlim(0, 1.08 * longest)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    white = {"ha": "center", "va": "center", "color": "white", "fontsize": 8, "weight": "bold"}
    for y, bar in enumerate(bars):
        start = 0
        for category, count in _parts(bar, categories):
            axes.barh(y, count, left=start, height=0.7, color=colours[category])
            if count >= _NUMBERED * longest:
                axes.text(start + count / 2, y, str(count), **white)
            start += count
        style.note(axes, str(bar.total), (start, y), (5, 0), va="center")
    return style.draw_svg(figure, name, title, " ".join(map(_bar_words, bars)))


@style.styled
def plot_bar_grid(
    rows: Mapping[str, Mapping[int, Bar]],
    columns: Sequence[int],
    categories: Sequence[str],
    name: str,
    title: str,
) -> str:
    """A grid with a row for each label and a column for each number: the shares of the categories
    as a bar, and its total; a dash for a cell without a bar. SVG text for inlining in HTML."""
    labels = [style.cut(label, _LABEL) for label in rows]
    left = style.label_width(labels)
    width = left + _CELL * len(columns) + 0.15
    figure = style.new_figure(width, _GRID_HEAD + _CELL_HIGH * len(rows))
    axes = style.row_axes(figure, labels, left=left, head=_GRID_HEAD, foot=0.02, right=0.15)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_xticks(range(len(columns)), [str(column) for column in columns])
    axes.grid(visible=False)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)
    for y, cells in enumerate(rows.values()):
        for x, column in enumerate(columns):
            _draw_cell(axes, x, y, cells.get(column), categories)
    words = (
        f"{label}, {column}: {_bar_words(bar)}"
        for label, cells in rows.items()
        for column, bar in cells.items()
    )
    return style.draw_svg(figure, name, title, " ".join(words))


def _draw_cell(axes: Any, x: int, y: int, bar: Bar | None, categories: Sequence[str]) -> None:
    text = "–" if bar is None else str(bar.total)
    axes.text(x, y + 0.42, text, ha="center", va="center", color=style.MUTED, fontsize=8)
    if bar is None:
        return
    start, colours = y - 0.45, _colours(categories)
    for category, count in _parts(bar, categories):
        share = 0.75 * count / bar.total
        axes.bar(x, share, bottom=start, width=0.72, color=colours[category])
        start += share


def _parts(bar: Bar, categories: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, bar.counts[name]) for name in categories if bar.counts.get(name)]


def _colours(categories: Sequence[str]) -> dict[str, str]:
    """The colour of each category; colours come again where there are more categories."""
    return dict(zip(categories, itertools.cycle(style.CATEGORIES), strict=False))


def _bar_words(bar: Bar) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in bar.counts.items() if count)
    total = f"{bar.label}: {bar.total} calls" if bar.label else f"{bar.total} calls"
    return f"{total}: {counts}." if counts else f"{total}."

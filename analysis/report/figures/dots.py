"""Shares with their intervals against a bound, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.plan import CONTAMINATED
from analysis.report.figures.style import (
    CATEGORIES,
    COLOUR,
    RULE,
    WIDE,
    add_axes,
    add_key,
    cut,
    draw_svg,
    label_width,
    new_figure,
    note,
)

_ROW, _FOOT, _HEAD, _NOTE = 0.24, 0.35, 0.3, 0.75  # inches
_MARKERS = ("o", "s", "D")
_LABEL = 40  # characters


@dataclass(frozen=True, slots=True)
class Dot:
    """A share with its interval; rows of one ``label`` stand together. ``group`` gives the colour,
    ``note`` stands at the end of the row."""

    label: str
    group: str
    value: float
    interval: tuple[float, float]
    note: str


def plot_dots(
    dots: Sequence[Dot], bound: float, groups: Sequence[str], name: str, title: str
) -> str:
    """A row for each share, on a scale from 0 to 1 with the ``bound`` marked. SVG text for inlining
    in HTML; ``name`` begins its ids."""
    from matplotlib.lines import Line2D

    height = _HEAD + _ROW * max(1, len(dots)) + _FOOT
    figure = new_figure(WIDE, height)
    styles: dict[str, dict[str, Any]] = {
        group: {"color": CATEGORIES[place], "marker": _MARKERS[place % len(_MARKERS)], "ms": 5}
        for place, group in enumerate(groups)
    }
    marks = [Line2D([], [], lw=1.8, label=group, **style) for group, style in styles.items()]
    add_key(figure, marks, 0.05, len(groups))
    left = label_width([cut(dot.label, _LABEL) for dot in dots])
    span = (WIDE - left - _NOTE) / WIDE
    axes = add_axes(figure, (left / WIDE, _FOOT / height, span, 1 - (_FOOT + _HEAD) / height))
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(max(1, len(dots)) - 0.5, -0.5)
    axes.grid(axis="x", color=RULE, lw=0.6)
    axes.axvline(bound, color=COLOUR[CONTAMINATED], lw=1, dashes=(4, 3))
    labels = [dot.label for dot in dots]
    first = [place for place, label in enumerate(labels) if label not in labels[:place]]
    axes.set_yticks(first, [cut(labels[place], _LABEL) for place in first])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.tick_params(axis="y", length=0, pad=8)
    axes.tick_params(axis="x", length=3, color=RULE)
    for y, dot in enumerate(dots):
        style = styles[dot.group]
        axes.plot(dot.interval, [y, y], color=style["color"], lw=1.8)
        axes.plot([dot.value], [y], lw=0, clip_on=False, **style)
        note(axes, dot.note, (1.01, y), (_NOTE * 72 - 4, 0), ha="right", va="center")
    words = " ".join(f"{dot.label}, {dot.group}: {dot.note}." for dot in dots)
    return draw_svg(figure, name, title, words)

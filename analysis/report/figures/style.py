"""SVG from matplotlib in the page's colours, so that it follows its light and dark modes.

Bytes are deterministic: no date, ids from a fixed salt, text as text.
"""

from __future__ import annotations

import functools
import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ParamSpec

from analysis.plan.verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Word

_Given = ParamSpec("_Given")

# The colours of a page and of its figures, for the light, the dark and the printed page, and the
# font of figures, as CSS variables.
CSS = Path(__file__).with_name("colours.css").read_text("utf-8").rstrip()
_RULES = CSS.partition("@media")[0].replace("{", ";").split(";")
_LIGHT = dict(r.strip(" -").split(": ") for r in _RULES if r.strip().startswith("--"))

# Of categories without a meaning: white text is legible on each.
CATEGORIES = ("#0b66a3", "#b3470a")

WIDE, NARROW = 8.5, 3.7  # inches of 72 points: a desktop column, a phone

# Stand-ins that the page's CSS variables replace; shapes tell verdicts apart without colour.
INK, MUTED, RULE, PAPER = "#010101", "#020202", "#030303", "#070707"
COLOUR: Mapping[Word, str] = defaultdict(lambda: "#060606") | {
    CONTAMINATED: "#040404",
    NO_INFLATION: "#050505",
    INCONCLUSIVE: "#060606",
    WITHHELD: "#080808",
}
MARKER: Mapping[Word, str] = defaultdict(lambda: "s") | {
    CONTAMINATED: "D",
    NO_INFLATION: "o",
    INCONCLUSIVE: "s",
    WITHHELD: "X",
}
_VARIABLES = dict(
    zip(
        (INK, MUTED, RULE, PAPER, *COLOUR.values()),
        ("ink", "muted", "rule", "paper", "contaminated", "clean", "unsure", "withheld"),
        strict=True,
    )
)
_SHEET = Path(__file__).with_name("figures.mplstyle")


def styled(plot: Callable[_Given, str]) -> Callable[_Given, str]:
    """Decorate a function that plots: everything in it is drawn in this style."""

    @functools.wraps(plot)
    def in_style(*args: _Given.args, **kwargs: _Given.kwargs) -> str:
        from matplotlib import style

        with style.context(_SHEET):
            return plot(*args, **kwargs)

    return in_style


def new_figure(width: float, height: float) -> Any:
    """An empty figure; its size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def keyed_figure(width: float, height: float, marks: Sequence[Any]) -> tuple[Any, float]:
    """A figure with a key above the given height, and the height of the key, in inches.

    ``marks`` are matplotlib's lines or patches, labelled.
    """
    longest = max((len(mark.get_label()) for mark in marks), default=0)
    columns = 4 if width > NARROW else 2 if longest < 24 else 1
    key = 0.1 + 0.2 * math.ceil(len(marks) / columns)
    figure = new_figure(width, height + key)
    place = (0.1 / width, 1 - 0.05 / (height + key))
    figure.legend(handles=list(marks), loc="upper left", bbox_to_anchor=place, ncols=columns)
    return figure, key


def draw_svg(figure: Any, name: str, title: str, words: str) -> str:
    """The figure as an ``<svg>`` element for a page: ids of its own, the page's colours, a title
    and ``words``, a description of its content."""
    buffer = io.StringIO()
    none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=none, transparent=True)
    text = buffer.getvalue()
    view = re.search(r'viewBox="[^"]+"', text)
    body = text[text.index("<defs") : text.rindex("</svg>")]
    body = re.sub(r"<(style|metadata)(?:[^<]|<(?!/\1>))*+<?+", "", body)  # would reach the page
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body.replace("xlink:href", "href"))
    body = re.sub("|".join(_VARIABLES), lambda match: f"var(--{_VARIABLES[match.group(0)]})", body)
    body = re.sub(r'font-family: [^;"]*', "font-family: var(--sans)", body)
    return (
        f'<svg {view.group(0) if view else ""} role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(words)}</desc>'
        f"{body}</svg>"
    )


def standalone(svg: str) -> str:
    """A page's figure as a file of its own: light, on its own ground."""
    text = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    text = re.sub(r"var\(--(\w+)\)", lambda name: escape(_LIGHT[name[1]]), text)
    ground = f'<rect width="100%" height="100%" fill="{_LIGHT["paper"]}"/>'
    text = text.replace("</desc>", f"</desc>{ground}", 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def panel(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place in inches from the figure's lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Panels of one size in rows: the margins of the figure, the gap between panels, and the height
    above, of and below each, in inches; ``across`` are side by side, but on a phone one alone."""

    left: float
    right: float
    gap: float
    head: float
    high: float
    foot: float
    across: int = 3


def panel_grid(
    grid: Grid, count: int, width: float, marks: Sequence[Any] | None = None, label: str = ""
) -> tuple[Any, float, list[Any]]:
    """A figure with a key of the ``marks`` if they are given, the width of its panels, and the axes
    of ``count`` panels, of which those at the left edge have the axis label."""
    across = min(1 if width <= NARROW else grid.across, max(1, count))
    down, cell = max(1, math.ceil(count / across)), grid.head + grid.high + grid.foot
    wide = (width - grid.left - grid.right - (across - 1) * grid.gap) / across
    figure = new_figure(width, down * cell)
    if marks is not None:
        figure, _ = keyed_figure(width, down * cell, marks)
    panels = []
    for row, column in (divmod(place, across) for place in range(count)):
        x, y = grid.left + column * (wide + grid.gap), (down - row - 1) * cell + grid.foot
        axes = panel(figure, x, y, wide, grid.high)
        axes.tick_params(axis="y", labelleft=not column)
        axes.set_ylabel("" if column else label)
        panels.append(axes)
    return figure, wide, panels


def row_axes(
    figure: Any, labels: Sequence[str], *, left: float, head: float, foot: float, right: float = 0.2
) -> Any:
    """Axes with a row for each label, the first at the top, between margins in inches."""
    width, height = figure.get_size_inches()
    axes = panel(figure, left, foot, width - left - right, height - head - foot)
    set_rows(axes, labels)
    return axes


def set_rows(axes: Any, labels: Sequence[str]) -> None:
    """Give axes a row for each label, the first at the top."""
    axes.set_ylim(max(1, len(labels)) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0, pad=8)
    axes.grid(axis="x")


def note(
    axes: Any, text: str, at: tuple[float, float], shift: tuple[float, float], **style: Any
) -> None:
    """A muted text at a place of the axes, shifted by some points of 72 an inch."""
    given = {"color": MUTED, "fontsize": 8.5, **style}
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **given)


def mark_verdict(axes: Any, x: float, y: float, verdict: Word, size: float = 7.0) -> None:
    """The mark of a verdict: its shape and colour, open where it is inconclusive."""
    axes.plot([x], [y], ms=size, lw=0, clip_on=False, **_verdict_style(verdict))


def _verdict_style(verdict: Word) -> dict[str, Any]:
    colour = COLOUR[verdict]
    return {
        "marker": MARKER[verdict],
        "mfc": PAPER if verdict == INCONCLUSIVE else colour,
        "mec": colour,
        "mew": 1.6 if verdict != WITHHELD else 0.6,
    }


def verdict_marks(words: Iterable[Word]) -> list[Any]:
    """A labelled mark for each verdict, in the order of the key."""
    from matplotlib.lines import Line2D

    present = set(words)
    return [
        Line2D([], [], lw=0, ms=6, label=word, **_verdict_style(word))
        for word in COLOUR
        if word in present
    ]


def points_axis(axis: Any) -> None:
    """Ticks of a share as points of 100."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.0f}".replace("-", "−")))


def gap_range(ends: Sequence[float], margin: float) -> tuple[float, float]:
    """Limits that hold some gaps, no gap and twice the margin."""
    low, high = min([-margin, *ends]), max([2 * margin, *ends])
    pad = 0.05 * (high - low)
    return max(-1.0, low - pad), min(1.0, high + pad)


def label_width(labels: Sequence[str], width: float = WIDE) -> float:
    """Inches that the longest of some labels takes beside an axis of a figure of some width."""
    return min(0.42 * width, 0.085 * max([8, *map(len, labels)]) + 0.2)


def slug(width: float) -> str:
    """The name of a width, for ids."""
    return "narrow" if width <= NARROW else "wide"


def cut(text: str, room: int) -> str:
    """Return a text cut to ``room`` characters."""
    return text if len(text) <= room else text[: room - 1] + "…"

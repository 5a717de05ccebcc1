"""The gap over time, a panel for each family of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from statistics import fmean
from typing import Any

from analysis.plan.verdict import Verdict
from analysis.report.facts import ModelFact
from analysis.report.figures import style
from analysis.report.report import Report
from analysis.stats.intervals import signed

_GRID = style.Grid(left=0.55, right=0.28, gap=0.3, head=0.36, high=1.55, foot=0.62)
_EPOCH = date(1970, 1, 1)
_LABELLED = 6  # models; of more in a panel the table has the names
_PAD, _LINE, _SMALL = 9.0, 9.6, 7.5  # points of 72 an inch: above the axes, of a name, its font


@dataclass(frozen=True, slots=True)
class Point:
    """A verdict in time: ``x`` is a day (from 1970 on) or a wave; ``cutoff`` a day, if known."""

    family: str
    x: float
    cutoff: float | None
    verdict: Verdict

    @property
    def gap(self) -> float:
        """The estimate of the verdict, which has one."""
        return self.verdict.estimate or 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Points by family, in the order of time. ``dated``: by release date, not by wave."""

    dated: bool
    published: float | None
    families: tuple[tuple[str, tuple[Point, ...]], ...]


def make_timeline(report: Report) -> Timeline:
    """The registered verdicts with an estimate in time: by release date where each of their models
    has one, else by wave."""
    rows = [verdict for verdict in report.verdicts if verdict.estimate is not None]
    dated = bool(rows) and all(report.fact(verdict.model).released for verdict in rows)
    points = sorted(
        (_point(verdict, report.fact(verdict.model), dated) for verdict in rows),
        key=lambda point: (point.x, point.verdict.model),
    )
    names = list(dict.fromkeys(point.family for point in points))
    return Timeline(
        dated,
        _day(report.published) if dated and report.published else None,
        tuple((name, tuple(p for p in points if p.family == name)) for name in names),
    )


@style.styled
def plot_time(line: Timeline, margin: float, width: float = style.WIDE) -> str:
    """A panel a family: gaps with 95 % intervals over release dates, or waves; where a training
    cut-off is known, a dotted line from it. SVG text for inlining in HTML."""
    points = [point for _, family_points in line.families for point in family_points]
    marks = style.verdict_marks(p.verdict.verdict for p in points)
    count, above = len(line.families), _LINE * max(len(_names(own)) for _, own in line.families)
    grid = replace(_GRID, head=_GRID.head + above / 72)
    figure, wide, panels = style.panel_grid(grid, count, width, marks, "Gap, points")
    limits = _limits(line, points)
    ends = [end for p in points for end in (*p.verdict.interval, p.gap)]
    span = style.gap_range(ends, margin)
    for axes, (family, family_points) in zip(panels, line.families, strict=True):
        axes.set_xlim(*limits)
        axes.set_ylim(*span)
        _draw_panel(axes, line, family_points, margin)
        axes.set_title(style.cut(family, int(wide * 12)), pad=_PAD + above)
        names = (style.cut(f"{n} {name}", int(wide * 17)) for n, name in _names(family_points))
        place = {"xycoords": "axes fraction", "va": "top", "fontsize": _SMALL}
        style.note(axes, "\n".join(names), (0, 1), (0, _PAD + above - 2), **place)
    title, name = "Gap over time by family of models", f"time-{style.slug(width)}"
    return style.draw_svg(figure, name, title, _words(line))


def _words(line: Timeline) -> str:
    sentences = []
    for family, points in line.families:
        parts = (
            f"{p.verdict.model}, {_when(p, line)}: {signed(p.gap)}, {p.verdict.verdict}"
            for p in points
        )
        sentences.append(f"{family}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _point(verdict: Verdict, fact: ModelFact, dated: bool) -> Point:
    family = fact.family or "no family stated"
    cutoff = _day(fact.cutoff) if dated and fact.cutoff else None
    return Point(family, _day(fact.released) if dated else verdict.wave, cutoff, verdict)


def _day(text: str) -> float:
    return float((date.fromisoformat(text) - _EPOCH).days)


def _when(point: Point, line: Timeline) -> str:
    if line.dated:
        return f"released {_EPOCH + timedelta(point.x)}, wave {point.verdict.wave}"
    return f"wave {point.verdict.wave}"


def _limits(line: Timeline, points: Sequence[Point]) -> tuple[float, float]:
    every = [p.x for p in points] + [p.cutoff for p in points if p.cutoff is not None]
    every += [line.published] if line.published is not None else []
    low, high = min(every, default=0.0), max(every, default=1.0)
    pad = max(0.12 * (high - low), 20.0 if line.dated else 0.5)
    return low - pad, high + pad


def _draw_panel(axes: Any, line: Timeline, points: Sequence[Point], margin: float) -> None:
    axes.grid(axis="y")
    axes.axhline(0, color=style.MUTED, lw=1)
    axes.axhline(margin, color=style.MUTED, lw=1, dashes=(4, 3))
    if line.published is not None:
        axes.axvline(line.published, color=style.MUTED, lw=1, dashes=(1.5, 2))
    xs = _apart(points, axes.get_xlim())
    numbers = {name: str(number) for number, name in _names(points)}
    for point, x in zip(points, xs, strict=True):
        _draw_point(axes, point, x)
        top = min(point.verdict.interval[1], axes.get_ylim()[1])
        number = numbers.get(point.verdict.model, "")
        style.note(axes, number, (x, top), (0, 2), fontsize=_SMALL, ha="center", va="bottom")
    style.points_axis(axes.yaxis)
    _time_axis(axes, dated=line.dated)


def _draw_point(axes: Any, point: Point, x: float) -> None:
    gap, colour = point.gap, style.COLOUR[point.verdict.verdict]
    low, high = axes.get_ylim()
    ends = [min(max(end, low), high) for end in point.verdict.interval]
    if point.cutoff is not None:
        axes.plot([point.cutoff, x], [gap, gap], color=colour, lw=1, ls=(0, (1, 1.6)))
        axes.plot([point.cutoff], [gap], "|", color=colour, ms=6)
    axes.plot([x, x], ends, color=colour, lw=1.6)
    style.mark_verdict(axes, x, gap, point.verdict.verdict, 6.0)


def _apart(points: Sequence[Point], limits: tuple[float, float]) -> list[float]:
    """Return the x position of each point of a panel: those that would touch are side by side."""
    step = min(0.055, 0.9 / len(points)) * (limits[1] - limits[0])
    groups: list[list[float]] = []
    for point in points:
        if not groups or point.x - groups[-1][-1] >= step:
            groups.append([])
        groups[-1].append(point.x)
    return [
        fmean(group) + step * (place - (len(group) - 1) / 2)
        for group in groups
        for place in range(len(group))
    ]


def _names(points: Sequence[Point]) -> list[tuple[int, str]]:
    """The models of a panel, numbered in the order of time; none if they are too many."""
    names = list(dict.fromkeys(point.verdict.model for point in points))
    return list(enumerate(names, 1)) if len(names) <= _LABELLED else []


def _time_axis(axes: Any, *, dated: bool) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    if dated:
        axes.xaxis.set_major_locator(AutoDateLocator(minticks=2, maxticks=5))
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("Released" if dated else "Wave")

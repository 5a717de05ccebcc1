"""Plots of values with their intervals, a row each: gaps, mean scores, shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.plan.results import PrimaryResult
from analysis.plan.verdict import BOUNDED, Verdict
from analysis.report.figures import style
from analysis.stats.intervals import points, signed
from registry.result_row import Arm

_ROW, _FOOT, _HEAD = 0.27, 0.52, 0.2  # inches
_GAPS, _APART = 0.58, 0.35  # of the width of both panels, for that of the gaps; inches
_ROWS = ("axes fraction", "data")
_STRATUM_LETTER, _STRATUM_ROW = 0.064, 0.26  # inches
_PANELS = style.Grid(left=0, right=0.2, gap=0.3, head=0.3, high=0, foot=0.35, across=2)
_ALL = "all strata"


@style.styled
def plot_gaps(
    verdicts: Sequence[Verdict],
    arms: Sequence[Mapping[Arm, float]],
    margin: float,
    width: float = style.WIDE,
) -> str:
    """One row per model and wave: its mean score in both ``arms``, and beside them (on a phone
    below) the gap of the verdict's outcome with the 95 % interval, lines at zero and at the margin,
    and the bound of models that are not contaminated. SVG text for inlining in HTML."""
    narrow, labels = width <= style.NARROW, [_label(v.model, v.wave, width) for v in verdicts]
    left, high = style.label_width(labels, width), _ROW * len(labels) + _HEAD + _FOOT
    right = 0.2 if narrow else style.label_width([v.outcome for v in verdicts], width)
    wide = (width - left - right) * (1.0 if narrow else _GAPS)  # inches of the gaps' panel
    beside, below = (0.0, high) if narrow else (wide + _APART, 0.0)
    marks = style.verdict_marks(v.verdict for v in verdicts)
    figure, key = style.keyed_figure(width, high + below, marks)
    place = {"left": left, "head": _HEAD + key, "foot": _FOOT + below, "right": right + beside}
    _draw_arms(style.row_axes(figure, labels, **place), arms)
    place = {"left": width - right - wide, "head": _HEAD + key + below, "foot": _FOOT}
    axes = style.row_axes(figure, labels, right=right, **place)
    axes.tick_params(axis="y", labelleft=narrow)
    draw_gaps(axes, verdicts, margin)
    for y, verdict in enumerate(() if narrow else verdicts):
        style.note(axes, verdict.outcome, (1, y), (8, 0), xycoords=_ROWS, va="center")
    words = (
        f"{v.model}, wave {v.wave}: {_words(v, m)}." for v, m in zip(verdicts, arms, strict=True)
    )
    name = f"gap-{style.slug(width)}"
    return style.draw_svg(figure, name, "Scores and gap by model and wave", " ".join(words))


def _words(verdict: Verdict, arms: Mapping[Arm, float]) -> str:
    scores = ", ".join(f"{arm} {points(mean)}" for arm, mean in arms.items())
    if verdict.estimate is None:
        return f"{scores}; no gap, {verdict.verdict}"
    low, high = verdict.interval
    bound = f"; bound {signed(verdict.deciding_bound)}" if verdict.verdict in BOUNDED else ""
    gap = f"gap {signed(verdict.estimate)} ({signed(low)} to {signed(high)}{bound})"
    return f"{scores}; {gap}, {verdict.verdict}"


def _draw_arms(axes: Any, arms: Sequence[Mapping[Arm, float]]) -> None:
    axes.set_xlim(-0.02, 1.02)
    looks = {Arm.PUBLIC: style.INK, Arm.PRIVATE: style.PAPER}
    for y, means in enumerate(arms):
        axes.plot([*means.values()], [y] * len(means), color=style.MUTED, lw=1.8)
        for arm, mean in means.items():
            look = {"mec": style.INK, "mfc": looks[arm], "mew": 1.4, "ms": 6, "clip_on": False}
            axes.plot([mean], [y], "o", **look)
    axes.set_xlabel("Score, points: ● public, ○ private")
    style.points_axis(axes.xaxis)


def draw_gaps(axes: Any, verdicts: Sequence[Verdict], margin: float) -> None:
    """Draw a row for each verdict with a gap: interval, bound and mark; lines at 0 and margin."""
    rows = [(y, v, v.estimate) for y, v in enumerate(verdicts) if v.estimate is not None]
    bounds = {y: v.deciding_bound for y, v, _ in rows if v.verdict in BOUNDED}
    ends = [end for _, v, gap in rows for end in (*v.interval, gap)]
    low, high = style.gap_range([*ends, *bounds.values()], margin)
    axes.set_xlim(low, high)
    axes.axvline(0, color=style.MUTED, lw=1)
    axes.axvline(margin, color=style.MUTED, lw=1, dashes=(4, 3))
    place = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    style.note(axes, f" margin {signed(margin)}", (margin, 1), (0, 3), **place)
    for y, verdict, gap in rows:
        colour = style.COLOUR[verdict.verdict]
        axes.plot([min(max(end, low), high) for end in verdict.interval], [y, y], color=colour)
        if bounds.get(y, high) < high:
            axes.plot([bounds[y]], [y], "|", color=colour, ms=9, mew=1.8)
        style.mark_verdict(axes, gap, y, verdict.verdict)
    axes.set_xlabel("Gap: public minus private, points")
    style.points_axis(axes.xaxis)


@style.styled
def plot_strata(results: Sequence[PrimaryResult], margin: float, width: float = style.WIDE) -> str:
    """A panel per model and wave with a row for each stratum: the gap with its 95 % interval, and
    below them that over all strata with its verdict. SVG text for inlining in HTML."""
    names = list(dict.fromkeys(gap.stratum for r in results for gap in r.strata))
    left = style.label_width([*names, _ALL], width)
    room = int(left / _STRATUM_LETTER)
    labels = [*(name if len(name) <= room else f"…{name[1 - room :]}" for name in names), _ALL]
    grid = replace(_PANELS, left=left, high=_STRATUM_ROW * len(labels))
    figure, wide, panels = style.panel_grid(grid, len(results), width)
    ends = [e for r in results for gap in r.strata for e in (gap.gap, *(gap.interval or ()))]
    limits = style.gap_range([*ends, *(e for r in results for e in r.verdict.interval)], margin)
    for axes, result in zip(panels, results, strict=True):
        axes.set_xlim(*limits)
        style.set_rows(axes, labels)
        axes.tick_params(axis="y", labelsize=8)
        axes.axvline(0, color=style.MUTED, lw=1)
        axes.set_title(f"{style.cut(result.model, int(wide * 8))}, wave {result.verdict.wave}")
        style.points_axis(axes.xaxis)
        _draw_strata(axes, result, names)
    words = (
        f"{r.model}, wave {r.verdict.wave}: "
        f"{'; '.join(f'{gap.stratum} {signed(gap.gap)}' for gap in r.strata)}."
        for r in results
    )
    name = f"strata-{style.slug(width)}"
    return style.draw_svg(figure, name, "Gap by stratum, points", " ".join(words))


def _draw_strata(axes: Any, result: PrimaryResult, names: Sequence[str]) -> None:
    low, high = axes.get_xlim()
    for gap in result.strata:
        y = names.index(gap.stratum)
        if gap.interval is not None:
            ends = [min(max(end, low), high) for end in gap.interval]
            axes.plot(ends, [y, y], color=style.INK, lw=1.4)
        axes.plot([gap.gap], [y], "o", color=style.INK, ms=4)
    verdict, y = result.verdict, len(names)
    ends = [min(max(end, low), high) for end in verdict.interval]
    axes.plot(ends, [y, y], color=style.COLOUR[verdict.verdict], lw=1.8)
    style.mark_verdict(axes, verdict.estimate or 0.0, y, verdict.verdict, 6.0)


def _label(model: str, wave: int, width: float) -> str:
    """Return model and wave, cut to the width of the margin."""
    if width > style.NARROW:
        return f"{style.cut(model, 32)}, wave {wave}"
    return f"{style.cut(model, 14)} · {wave}"

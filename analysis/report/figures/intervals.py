"""Plots of values with their intervals, a row each: gaps, mean scores, shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from analysis.plan.look import ArmMean
from analysis.plan.results import PrimaryResult
from analysis.plan.verdict import CONTAMINATED, Verdict
from analysis.report.figures import style
from analysis.stats.intervals import points, signed
from registry.result_row import Arm

_ROW, _FOOT, _HEAD = 0.36, 0.55, 0.2  # inches
_STRATUM_LETTER, _STRATUM_ROW = 0.064, 0.26  # inches
_PANELS = style.Grid(left=0, right=0.2, gap=0.3, head=0.3, high=0, foot=0.35, across=2)
_ALL = "all strata"


@style.styled
def plot_gaps(verdicts: Sequence[Verdict], margin: float, width: float = style.WIDE) -> str:
    """One row per model and wave: the gap with its 95 % interval, or unless it is contaminated up
    to the bound that decides, which is capped; a line at zero and one at the margin, the verdict by
    shape and colour. SVG text for inlining in HTML."""
    rows = [verdict for verdict in verdicts if verdict.estimate is not None]
    labels = [_label(v.model, v.wave, width) for v in rows]
    figure, axes = _canvas(width, labels, style.verdict_marks(v.verdict for v in rows))
    low, high = style.gap_range(
        [e for v in rows for e in (*interval_ends(v), v.estimate or 0)], margin
    )
    axes.set_xlim(low, high)
    axes.axvline(0, color=style.MUTED, lw=1)
    axes.axvline(margin, color=style.MUTED, lw=1, dashes=(4, 3))
    place = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    style.note(axes, f" margin {signed(margin)}", (margin, 1), (0, 3), **place)
    for y, verdict in enumerate(rows):
        ends = [min(max(end, low), high) for end in interval_ends(verdict)]
        colour = style.COLOUR[verdict.verdict]
        axes.plot(ends, [y, y], color=colour, lw=1.8)
        if verdict.verdict != CONTAMINATED and ends[1] == interval_ends(verdict)[1]:
            axes.plot(ends[1:], [y], "|", color=colour, ms=7, mew=1.8)
        style.mark_verdict(axes, verdict.estimate or 0.0, y, verdict.verdict)
    axes.set_xlabel("Gap: public minus private, points")
    style.points_axis(axes.xaxis)
    words = (
        f"{v.model}, wave {v.wave}: {signed(v.estimate or 0.0)} "
        f"({signed(v.interval[0])} to {signed(v.interval[1])}; bound {signed(v.deciding_bound)}), "
        f"{v.verdict}."
        for v in rows
    )
    name = f"gap-{style.slug(width)}"
    return style.draw_svg(figure, name, "Gap by model and wave", " ".join(words))


@style.styled
def plot_arms(means: Sequence[ArmMean], width: float = style.WIDE) -> str:
    """One row per model and wave: the mean score in each arm, averaged over strata, with 95 %
    intervals; private is open, public filled. SVG text for inlining in HTML."""
    from matplotlib.lines import Line2D

    whole = [mean for mean in means if not mean.stratum]
    keys = sorted({(m.wave, m.model) for m in whole})
    looks = {Arm.PUBLIC: _arm_look(style.INK), Arm.PRIVATE: _arm_look(style.MUTED, style.PAPER)}
    marks = [Line2D([], [], lw=0, label=f"{arm} instances", **look) for arm, look in looks.items()]
    figure, axes = _canvas(width, [_label(model, wave, width) for wave, model in keys], marks)
    axes.set_xlim(-0.02, 1.02)
    for mean in whole:
        look = looks[mean.arm]
        y = keys.index((mean.wave, mean.model)) + (-0.13 if mean.arm == Arm.PUBLIC else 0.13)
        if mean.estimate.interval is not None:
            axes.plot(mean.estimate.interval, [y, y], color=look["mec"], lw=1.4)
        axes.plot([mean.estimate.mean], [y], lw=0, clip_on=False, **look)
    axes.set_xlabel("Mean score, points of 100")
    style.points_axis(axes.xaxis)
    words = (f"{m.model}, wave {m.wave}, {m.arm}: {points(m.estimate.mean)}." for m in whole)
    return style.draw_svg(figure, f"arms-{style.slug(width)}", "Mean score by arm", " ".join(words))


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


def interval_ends(verdict: Verdict) -> tuple[float, float]:
    """The ends of a verdict's bar: no bar crosses the margin of a model that is cleared."""
    low, high = verdict.interval
    if verdict.verdict == CONTAMINATED:
        return low, high
    if verdict.deciding_lower is not None:
        low = verdict.deciding_lower
    return min(low, verdict.deciding_bound), verdict.deciding_bound


def _arm_look(colour: str, fill: str = "") -> dict[str, Any]:
    return {"marker": "o", "ms": 5.5, "mec": colour, "mfc": fill or colour, "mew": 1.4}


def _canvas(width: float, labels: Sequence[str], marks: Sequence[Any]) -> tuple[Any, Any]:
    """A figure and axes with a row for each label, below a key."""
    height = _ROW * max(len(labels), 1) + _FOOT + _HEAD
    figure, key = style.keyed_figure(width, height, marks)
    left = style.label_width(labels, width)
    return figure, style.row_axes(figure, labels, left=left, head=_HEAD + key, foot=_FOOT)


def _label(model: str, wave: int, width: float) -> str:
    """Return model and wave, cut to the width of the margin."""
    if width > style.NARROW:
        return f"{style.cut(model, 32)}, wave {wave}"
    return f"{style.cut(model, 14)} · {wave}"

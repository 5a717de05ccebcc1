"""Plots of gaps and scores, a row for each model and wave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from analysis.plan import ArmMean, Verdict
from analysis.report.figures.style import (
    COLOUR,
    INK,
    MUTED,
    NARROW,
    PAPER,
    RULE,
    WIDE,
    add_axes,
    add_key,
    cut,
    draw_svg,
    gap_range,
    mark_verdict,
    new_figure,
    note,
    points_axis,
    slug,
    verdict_marks,
)
from registry.result_row import Arm

_ROW = 0.36  # inches


def plot_gaps(verdicts: Sequence[Verdict], margin: float, width: float = WIDE) -> str:
    """One row per model and wave: the gap with its 95 % interval, a line at zero and one at the
    margin, the verdict by shape and colour. SVG text for inlining in HTML."""
    rows = [verdict for verdict in verdicts if verdict.estimate is not None]
    marks, columns = verdict_marks(v.verdict for v in rows), 2 if width <= NARROW else 4
    labels = [_label(v.model, v.wave, width) for v in rows]
    figure, axes = _canvas(width, labels, math.ceil(len(marks) / columns))
    add_key(figure, marks, 0.05, columns)
    low, high = gap_range([e for v in rows for e in (*v.interval, v.estimate or 0.0)], margin)
    axes.set_xlim(low, high)
    axes.axvline(0, color=MUTED, lw=1)
    axes.axvline(margin, color=MUTED, lw=1, dashes=(4, 3))
    place = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    note(axes, f" margin {_points(margin)}", (margin, 1), (0, 3), **place)
    for y, verdict in enumerate(rows):
        ends = [min(max(end, low), high) for end in verdict.interval]
        axes.plot(ends, [y, y], color=COLOUR[verdict.verdict], lw=1.8)
        mark_verdict(axes, verdict.estimate or 0.0, y, verdict.verdict)
    axes.set_xlabel("Gap: public minus private, points")
    points_axis(axes.xaxis)
    return draw_svg(figure, f"gap-{slug(width)}", "Gap by model and wave", _gap_words(rows))


def plot_arms(means: Sequence[ArmMean], width: float = WIDE) -> str:
    """One row per model and wave: the mean score in each arm, averaged over strata, with 95 %
    intervals; private is open, public filled. SVG text for inlining in HTML."""
    whole = [mean for mean in means if not mean.stratum]
    keys = sorted({(m.wave, m.model) for m in whole})
    labels = [_label(model, wave, width) for wave, model in keys]
    figure, axes = _canvas(width, labels, 1)
    add_key(figure, _arm_marks(), 0.05, 2)
    axes.set_xlim(-0.02, 1.02)
    for mean in whole:
        _draw_mean(axes, keys.index((mean.wave, mean.model)), mean)
    axes.set_xlabel("Mean score, points of 100")
    points_axis(axes.xaxis)
    return draw_svg(figure, f"arms-{slug(width)}", "Mean score by arm", _arm_words(whole))


def _arm_marks() -> list[Any]:
    from matplotlib.lines import Line2D

    names = {Arm.PUBLIC: "public instances", Arm.PRIVATE: "private instances"}
    return [Line2D([], [], lw=0, label=name, **_arm_style(arm)) for arm, name in names.items()]


def _arm_style(arm: Arm) -> dict[str, Any]:
    colour, fill = (INK, INK) if arm == Arm.PUBLIC else (MUTED, PAPER)
    return {"marker": "o", "ms": 5.5, "mec": colour, "mfc": fill, "mew": 1.4}


def _canvas(width: float, labels: list[str], keys: int) -> tuple[Any, Any]:
    """A figure and axes with a row for each label, below a key of so many lines."""
    rows = len(labels)
    head = 0.3 + 0.2 * keys
    height = _ROW * max(rows, 1) + 0.55 + head
    figure = new_figure(width, height)
    left = min(0.42, (0.085 * max([8, *map(len, labels)]) + 0.2) / width)
    axes = add_axes(figure, (left, 0.55 / height, 0.97 - left, 1 - (0.55 + head) / height))
    axes.set_ylim(max(rows, 1) - 0.45, -0.55)
    axes.set_yticks(range(rows), labels)
    axes.tick_params(axis="y", length=0, pad=8)
    axes.tick_params(axis="x", length=3, color=RULE)
    axes.grid(axis="x", color=RULE, lw=0.6)
    return figure, axes


def _draw_mean(axes: Any, row: int, mean: ArmMean) -> None:
    y = row + (-0.13 if mean.arm == Arm.PUBLIC else 0.13)
    style = _arm_style(mean.arm)
    if mean.estimate.interval is not None:
        axes.plot(mean.estimate.interval, [y, y], color=style["mec"], lw=1.4)
    axes.plot([mean.estimate.mean], [y], lw=0, clip_on=False, **style)


def _gap_words(rows: Sequence[Verdict]) -> str:
    return " ".join(
        f"{v.model}, wave {v.wave}: {_points(v.estimate or 0.0)} "
        f"({_points(v.interval[0])} to {_points(v.interval[1])}), {v.verdict}."
        for v in rows
    )


def _arm_words(means: Sequence[ArmMean]) -> str:
    return " ".join(
        f"{m.model}, wave {m.wave}, {m.arm}: {100 * m.estimate.mean:.1f}." for m in means
    )


def _label(model: str, wave: int, width: float) -> str:
    """Model and wave, cut to what the margin holds."""
    if width > NARROW:
        return f"{cut(model, 32)}, wave {wave}"
    return f"{cut(model, 14)} · {wave}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")

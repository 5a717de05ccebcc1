"""Figures of how often a leak is found, for known leaks (calibration)."""

from __future__ import annotations

from typing import Any

from analysis.calibrate.calibration import WANTED, Calibration, detection
from analysis.report.figures import style

_LEFT, _RIGHT, _FOOT, _HEAD, _HIGH = 0.6, 0.15, 0.62, 0.34, 2.2  # inches, of a calibration


@style.styled
def plot_calibration(calibration: Calibration, width: float = style.WIDE) -> str:
    """Two panels, side by side or, where narrow, one above the other. An ``<svg>`` element."""
    narrow, height = width <= style.NARROW, _HIGH + _FOOT + _HEAD
    across = width if narrow else width / 2
    figure = style.new_figure(width, height * (2 if narrow else 1))
    places = [(0, height), (0, 0)] if narrow else [(0, 0), (across, 0)]
    for (x, y), draw in zip(places, (_draw_rates, _draw_gaps), strict=True):
        axes = style.panel(figure, x + _LEFT, y + _FOOT, across - _LEFT - _RIGHT, _HIGH)
        _scale_doses(axes)
        draw(axes, calibration)
        style.points_axis(axes.yaxis)
    rates = ", ".join(f"{100 * row.dose:g} %: {100 * row.rate:.0f} %" for row in calibration.doses)
    words = f"Detection by known share of the public arm: {rates}."
    if calibration.enough is not None:
        words += f" {100 * calibration.enough:.1f} % are detected with probability 0.8."
    name = f"calibration-{style.slug(width)}"
    return style.draw_svg(figure, name, "What a known leak looks like", words)


def _draw_rates(axes: Any, calibration: Calibration) -> None:
    doses = calibration.doses
    if calibration.enough is not None:
        enough, grid = calibration.enough, [(place / 200) ** 2 for place in range(201)]
        curve = [detection(dose, enough, calibration.size) for dose in grid]
        axes.plot(grid, curve, color=style.MUTED, lw=1.2)
        axes.plot([enough, enough], [0, WANTED], color=style.MUTED, lw=0.9, dashes=(3, 2))
        low, high = calibration.enough_interval
        axes.axvspan(low or 0.0, 1.0 if high is None else high, color=style.RULE, alpha=0.5, lw=0)
        place = enough, 0
        style.note(axes, f"{100 * enough:.1f} %", place, (4, 4), color=style.INK, fontsize=9)
    axes.axhline(WANTED, color=style.RULE, lw=1, zorder=0)
    for row in doses:
        axes.plot([row.dose] * 2, row.interval, "_-", color=style.INK, lw=0.9, ms=4, clip_on=False)
    shares, rates = [row.dose for row in doses], [row.rate for row in doses]
    axes.plot(shares, rates, "o", ms=5, color=style.INK, clip_on=False)
    axes.set_ylim(0, 1.04)
    axes.set_title("Found by the plan's test, %")


def _draw_gaps(axes: Any, calibration: Calibration) -> None:
    gaps = [row.gap for row in calibration.doses]
    shares = [row.dose for row in calibration.doses]
    axes.plot(shares, gaps, "o", ms=5, color=style.INK, clip_on=False)
    limits = {"limit of blank": calibration.blank, "limit of detection": calibration.limit}
    for name, value in limits.items():
        if value is not None:
            axes.axhline(value, color=style.MUTED, lw=0.9, dashes=(3, 2))
            style.note(axes, f"{name}, {100 * value:.1f}", (1, value), (-2, 2), ha="right")
    top = max([*gaps, 1.3 * (calibration.limit or 0.0), 0.05])
    axes.set_ylim(min([0.0, *gaps]) - 0.03 * top, 1.06 * top)
    axes.set_title("Mean gap, points")


def _scale_doses(axes: Any) -> None:
    """Doses on a scale of square roots: the small ones are those that matter."""
    import numpy as np

    def root(x: Any) -> Any:
        return np.sqrt(np.maximum(x, 0.0))

    axes.set_xscale("function", functions=(root, np.square))
    axes.set_xlim(0, 1)
    ticks = [0, 0.01, 0.05, 0.1, 0.2, 0.5, 1]
    axes.set_xticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    axes.set_xlabel("Known share of the public arm, %")
    axes.grid(axis="y")

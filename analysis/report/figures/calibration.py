"""A calibration as a picture: how often each dose is found, and the gap that it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.calibration import WANTED, Calibration, detection
from analysis.report.figures.style import (
    INK,
    MUTED,
    NARROW,
    RULE,
    WIDE,
    add_axes,
    draw_svg,
    new_figure,
    note,
    points_axis,
    slug,
)

_LEFT, _RIGHT, _BETWEEN, _FOOT, _HEAD, _HIGH = 0.6, 0.15, 0.7, 0.62, 0.34, 2.2  # inches


def plot_calibration(
    calibration: Calibration, width: float = WIDE, name: str = "calibration"
) -> str:
    """Two panels, side by side or, where narrow, one above the other. An ``<svg>`` element,
    its ids after ``name`` and width."""
    narrow = width <= NARROW
    rows = 2 if narrow else 1
    panel_width = width - _LEFT - _RIGHT if narrow else (width - 2 * _LEFT - 2 * _RIGHT) / 2
    height = rows * (_HIGH + _FOOT + _HEAD)
    figure = new_figure(width, height)

    def panel(column: int, row: int) -> Any:
        left = _LEFT + column * (panel_width + _LEFT + _RIGHT)
        bottom = (rows - 1 - row) * (_HIGH + _FOOT + _HEAD) + _FOOT
        return add_axes(
            figure, (left / width, bottom / height, panel_width / width, _HIGH / height)
        )

    _draw_rates(panel(0, 0), calibration)
    _draw_gaps(panel(*((0, 1) if narrow else (1, 0))), calibration)
    return draw_svg(
        figure,
        f"{name}-{slug(width)}",
        "What a known leak looks like",
        calibration_description(calibration),
    )


def calibration_description(calibration: Calibration) -> str:
    """What the picture shows."""
    rates = ", ".join(
        f"{100 * dose.dose:g} %: {100 * dose.rate:.0f} %" for dose in calibration.doses
    )
    if calibration.enough is None:
        return f"Detection by known share of the public arm: {rates}."
    return (
        f"Detection by known share of the public arm: {rates}. "
        f"{100 * calibration.enough:.1f} % are detected with probability 0.8."
    )


def _draw_rates(axes: Any, calibration: Calibration) -> None:
    _doses(axes)
    at = [row.dose for row in calibration.doses]
    errors = [
        [dose.rate - dose.interval[0] for dose in calibration.doses],
        [dose.interval[1] - dose.rate for dose in calibration.doses],
    ]
    if calibration.enough is not None:
        enough, grid = calibration.enough, [(place / 200) ** 2 for place in range(201)]
        curve = [detection(dose, enough, calibration.size) for dose in grid]
        axes.plot(grid, curve, color=MUTED, lw=1.2)
        axes.plot([enough, enough], [0, WANTED], color=MUTED, lw=0.9, dashes=(3, 2))
        low, high = calibration.enough_interval
        axes.axvspan(low or 0.0, 1.0 if high is None else high, color=RULE, alpha=0.5, lw=0)
        note(axes, f"{100 * enough:.1f} %", (enough, 0), (4, 4), color=INK, fontsize=9)
    axes.axhline(WANTED, color=RULE, lw=1, zorder=0)
    dots = {"fmt": "o", "ms": 5, "lw": 0, "color": INK, "clip_on": False}
    rates = [dose.rate for dose in calibration.doses]
    axes.errorbar(at, rates, yerr=errors, elinewidth=0.9, capsize=2, **dots)
    axes.set_ylim(0, 1.04)
    points_axis(axes.yaxis)
    axes.set_title("Found by the plan's test, %", loc="left", fontsize=9.5, color=INK)


def _draw_gaps(axes: Any, calibration: Calibration) -> None:
    _doses(axes)
    at, gaps = [dose.dose for dose in calibration.doses], [dose.gap for dose in calibration.doses]
    axes.plot(at, gaps, "o", ms=5, color=INK, clip_on=False)
    for value, name in (
        (calibration.blank, "limit of blank"),
        (calibration.limit, "limit of detection"),
    ):
        if value is not None:
            axes.axhline(value, color=MUTED, lw=0.9, dashes=(3, 2))
            note(axes, f"{name}, {100 * value:.1f}", (1, value), (-2, 2), ha="right")
    top = max([*gaps, 1.3 * (calibration.limit or 0.0), 0.05])
    axes.set_ylim(min([0.0, *gaps]) - 0.03 * top, 1.06 * top)
    points_axis(axes.yaxis)
    axes.set_title("Mean gap, points", loc="left", fontsize=9.5, color=INK)


def _doses(axes: Any) -> None:
    """Doses on a scale of square roots: the small ones are those that matter."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    forward: Callable[[Any], Any] = _root
    axes.set_xscale("function", functions=(forward, _square))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.01, 0.05, 0.1, 0.2, 0.5, 1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))
    axes.set_xlabel("Known share of the public arm, %")
    axes.grid(axis="y", color=RULE, lw=0.5)


def _root(x: Any) -> Any:
    import numpy as np

    return np.sqrt(np.maximum(x, 0.0))


def _square(x: Any) -> Any:
    import numpy as np

    return np.square(x)

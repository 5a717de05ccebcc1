"""Figures of how often a leak is found: calculated (power), and for known leaks (calibration)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.calibration import WANTED, Calibration, detection
from analysis.planning import PowerCurve, PowerPoint
from analysis.report.figures import style

_LEFT, _RIGHT, _FOOT, _HEAD, _HIGH = 0.6, 0.15, 0.62, 0.34, 2.2  # inches, of a calibration
_POWER_HIGH, _POWER_HEAD, _BETWEEN = 3.9, 1.0, 0.35  # inches
_MODEL, _STUDY = style.CATEGORIES[:2]  # distinguished by marker and dash too


@style.styled
def plot_power(
    seeds: PowerCurve, gaps: PowerCurve, strata: int, cost: Callable[[int], float | None]
) -> str:
    """Two panels: power over seeds an arm and stratum, for the curve's gap, with their ``cost``
    above; and power over the inflation, for the planned seeds. Text of an SVG file."""
    figure = style.new_figure(style.WIDE, _POWER_HIGH)
    width = (style.WIDE - _LEFT - _BETWEEN - _RIGHT) / 2
    height = _POWER_HIGH - _FOOT - _POWER_HEAD
    left = style.panel(figure, _LEFT, _FOOT, width, height)
    right = style.panel(figure, _LEFT + _BETWEEN + width, _FOOT, width, height)
    _draw_power(left, seeds, lambda p: p.seeds)
    left.set_xlabel(f"Instances in each arm of each of {strata} strata")
    left.set_ylabel("Power, %")
    _mark(left, seeds.value, "{:.0f}")
    _price(left, cost)
    _draw_power(right, gaps, lambda p: 100 * p.gap)
    right.set_xlabel("Inflation, points")
    right.tick_params(labelleft=False)
    _mark(right, None if gaps.value is None else 100 * gaps.value, "{:.1f}")
    marks, _ = right.get_legend_handles_labels()
    style.add_key(figure, marks, 2)
    by_seeds = ", ".join(f"{p.seeds} instances {100 * p.power:.0f} %" for p in seeds.points)
    by_gap = ", ".join(f"{100 * p.gap:g} points {100 * p.power:.0f} %" for p in gaps.points)
    words = f"Power of a model by instances: {by_seeds}; by inflation: {by_gap}."
    return style.standalone(style.draw_svg(figure, "power", "Power", words))


@style.styled
def plot_calibration(
    calibration: Calibration, width: float = style.WIDE, name: str = "calibration"
) -> str:
    """Two panels, side by side or, where narrow, one above the other. An ``<svg>`` element,
    its ids after ``name`` and width."""
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
    name = f"{name}-{style.slug(width)}"
    return style.draw_svg(figure, name, "What a known leak looks like", words)


def _draw_power(axes: Any, curve: PowerCurve, x: Callable[[PowerPoint], float]) -> None:
    points = curve.points
    at = [x(point) for point in points]
    study = [(p.study_power, p.study_error) for p in points]
    series = (
        ("a model (P3)", _MODEL, "o", [(p.power, p.error) for p in points]),
        ("the study by its last look (P4)", _STUDY, "s", study),
    )
    for label, colour, marker, rates in series:
        if any(power is not None for power, _ in rates):
            power = [100 * (power or 0.0) for power, _ in rates]
            errors = [196 * (error or 0.0) for _, error in rates]
            look = {"color": colour, "marker": marker, "ms": 4.5, "ls": "none", "label": label}
            axes.errorbar(at, power, yerr=errors, capsize=2, elinewidth=1.0, **look)
    formula = [100 * p.formula for p in points]
    axes.plot(at, formula, color=style.MUTED, lw=1, dashes=(4, 3), label="a model, by formula")
    axes.axhline(100 * curve.target, color=style.RULE, lw=1, zorder=0)
    axes.set_ylim(0, 103)
    axes.grid(axis="y")


def _mark(axes: Any, value: float | None, form: str) -> None:
    if value is not None:
        axes.axvline(value, color=_MODEL, lw=0.8, dashes=(2, 2))
        style.note(axes, form.format(value), (value, 3), (4, 0), color=_MODEL, fontsize=9.5)


def _price(axes: Any, cost: Callable[[int], float | None]) -> None:
    """Show the cost of the seeds on an axis above."""
    ticks = [tick for tick in axes.get_xticks() if tick >= 1]
    prices = [cost(round(tick)) for tick in ticks]
    if not ticks or None in prices:
        return
    limits = axes.get_xlim()
    above = axes.secondary_xaxis("top")
    above.set_xticks(ticks, [f"${price:,.0f}" for price in prices])
    above.spines["top"].set_visible(True)
    above.set_xlabel("Cost of all looks", color=style.MUTED)
    axes.set_xlim(limits)


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

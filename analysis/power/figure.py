"""The figure of a plan's power: over instances, and over the size of the inflation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.power.power import PowerCurve, PowerPoint
from analysis.report.figures import style

_LEFT, _RIGHT, _FOOT, _HEAD, _HIGH, _BETWEEN = 0.6, 0.15, 0.62, 1.0, 3.9, 0.35  # inches
_MODEL, _STUDY = style.CATEGORIES[:2]  # distinguished by marker and dash too


@style.styled
def plot_power(
    seeds: PowerCurve, gaps: PowerCurve, strata: int, cost: Callable[[int], float | None]
) -> str:
    """Two panels: power over seeds an arm and stratum, for the curve's gap, with their ``cost``
    above; and power over the inflation, for the planned seeds. Text of an SVG file."""
    figure = style.new_figure(style.WIDE, _HIGH)
    width = (style.WIDE - _LEFT - _BETWEEN - _RIGHT) / 2
    height = _HIGH - _FOOT - _HEAD
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

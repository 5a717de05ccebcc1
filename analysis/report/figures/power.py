"""Power as a picture: over seeds with what they cost, and over the inflation. One SVG file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.planning import PowerCurve, PowerPoint
from analysis.report.figures.style import (
    CATEGORIES,
    MUTED,
    RULE,
    WIDE,
    add_axes,
    add_key,
    draw_svg,
    new_figure,
    note,
    standalone,
)

_MODEL, _STUDY, _ISSUED = CATEGORIES[:3]  # distinguished by marker and dash too
_HIGH, _LEFT, _BETWEEN, _FOOT, _HEAD = 3.9, 0.6, 0.35, 0.55, 1.0  # inches


def plot_power(
    seeds: PowerCurve, gaps: PowerCurve, strata: int, cost: Callable[[int], float | None]
) -> str:
    """Two panels: power over seeds an arm and stratum, for the curve's gap, with ``cost`` of so
    many seeds above; and power over the inflation, for the planned seeds. Text of an SVG."""
    figure = new_figure(WIDE, _HIGH)
    width = (WIDE - _LEFT - _BETWEEN - 0.15) / 2 / WIDE
    high = 1 - (_FOOT + _HEAD) / _HIGH
    left = add_axes(figure, (_LEFT / WIDE, _FOOT / _HIGH, width, high))
    right = add_axes(figure, ((_LEFT + _BETWEEN) / WIDE + width, _FOOT / _HIGH, width, high))
    _draw(left, seeds, lambda p: p.seeds)
    left.set_xlabel(f"Instances in each arm of each of {strata} strata")
    left.set_ylabel("Power, %")
    _mark(left, seeds.value, "{:.0f}")
    _price(left, cost)
    _draw(right, gaps, lambda p: 100 * p.gap)
    right.set_xlabel("Inflation, points")
    right.tick_params(labelleft=False)
    _mark(right, None if gaps.value is None else 100 * gaps.value, "{:.1f}")
    marks, _ = right.get_legend_handles_labels()
    add_key(figure, marks, 0.08, 2)
    return standalone(draw_svg(figure, "power", "Power", _description(seeds, gaps)))


def _description(seeds: PowerCurve, gaps: PowerCurve) -> str:
    by_seeds = ", ".join(f"{p.seeds} instances {100 * p.power:.0f} %" for p in seeds.points)
    by_gap = ", ".join(f"{100 * p.gap:g} points {100 * p.power:.0f} %" for p in gaps.points)
    return f"Power of a model by instances: {by_seeds}; by inflation: {by_gap}."


def _draw(axes: Any, curve: PowerCurve, x: Callable[[PowerPoint], float]) -> None:
    points = curve.points
    at = [x(point) for point in points]
    study = [(p.study_power, p.study_error) for p in points]
    series = (
        ("a model (P3)", _MODEL, "o", [(p.power, p.error) for p in points]),
        ("a model, not withheld by C1", _ISSUED, "^", [(p.issued, p.issued_error) for p in points]),
        ("the study by its last look (P4)", _STUDY, "s", study),
    )
    for label, colour, marker, rates in series:
        if any(power is not None for power, _ in rates):
            power = [100 * (power or 0.0) for power, _ in rates]
            errors = [196 * (error or 0.0) for _, error in rates]
            style = {"color": colour, "marker": marker, "ms": 4.5, "ls": "none", "label": label}
            axes.errorbar(at, power, yerr=errors, capsize=2, elinewidth=1.0, **style)
    formula = [100 * p.formula for p in points]
    axes.plot(at, formula, color=MUTED, lw=1, dashes=(4, 3), label="a model, by formula")
    axes.axhline(100 * curve.target, color=RULE, lw=1, zorder=0)
    axes.set_ylim(0, 103)
    axes.grid(axis="y", color=RULE, lw=0.5)


def _mark(axes: Any, value: float | None, form: str) -> None:
    if value is not None:
        axes.axvline(value, color=_MODEL, lw=0.8, dashes=(2, 2))
        note(axes, form.format(value), (value, 3), (4, 0), color=_MODEL, fontsize=9.5)


def _price(axes: Any, cost: Callable[[int], float | None]) -> None:
    """What the seeds below cost, above."""
    ticks = [tick for tick in axes.get_xticks() if tick >= 1]
    prices = [cost(round(tick)) for tick in ticks]
    if not ticks or None in prices:
        return
    limits = axes.get_xlim()
    above = axes.secondary_xaxis("top")
    above.set_xticks(ticks, [f"${price:,.0f}" for price in prices])
    above.tick_params(length=2, color=RULE, labelcolor=MUTED, labelsize=9.5)
    above.spines["top"].set_color(RULE)
    above.set_xlabel("Cost of all looks", color=MUTED, fontsize=9.5)
    axes.set_xlim(limits)

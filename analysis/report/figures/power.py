"""Power as a picture: over seeds with what they cost, and over the inflation. One SVG file.

Bytes are deterministic: no date, ids from a fixed salt, text as text.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from analysis.planning import PowerCurve, PowerPoint

_INK, _MUTED, _RULE = "#1b1f24", "#57606a", "#d0d7de"
_MODEL, _ISSUED, _STUDY = "#0550ae", "#1a7f37", "#953800"  # told apart by marker and dash too
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "dosimeter", "font.family": "sans-serif",
    "font.size": 9.5, "text.parse_math": False, "text.color": _INK, "axes.labelcolor": _INK,
    "axes.edgecolor": _RULE, "xtick.color": _MUTED, "ytick.color": _MUTED,
    "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": True,
}  # fmt: skip


def plot_power(
    seeds: PowerCurve, gaps: PowerCurve, strata: int, cost: Callable[[int], float | None]
) -> str:
    """Two panels: power over seeds an arm and stratum, for the curve's gap, with ``cost`` of so
    many seeds above; and power over the inflation, for the planned seeds. Text of an SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, seeds, lambda p: p.seeds)
        left.set_xlabel(f"Instances in each arm of each of {strata} strata")
        left.set_ylabel("Power, %")
        _mark(left, seeds, seeds.value, "{:.0f}")
        _price(left, cost)
        _draw(right, gaps, lambda p: 100 * p.gap)
        right.set_xlabel("Inflation, points")
        _mark(right, gaps, None if gaps.value is None else 100 * gaps.value, "{:.1f}")
        lines, labels = right.get_legend_handles_labels()
        figure.legend(
            lines, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5
        )
        return _svg(figure)


def _draw(axes: Any, curve: PowerCurve, x: Callable[[PowerPoint], float]) -> None:
    points = curve.points
    at = [x(point) for point in points]
    _band(axes, at, [(p.power, p.error) for p in points], _MODEL, "o", "a model (P3)")
    issued = [(p.issued or 0.0, p.issued_error or 0.0) for p in points]
    if any(p.issued is not None for p in points):
        _band(axes, at, issued, _ISSUED, "^", "a model, not withheld by C1")
    studies = [(p.study_power or 0.0, p.study_error or 0.0) for p in points]
    if any(p.study_power is not None for p in points):
        _band(axes, at, studies, _STUDY, "s", "the study by its last look (P4)")
    formula = [100 * p.formula for p in points]
    axes.plot(at, formula, color=_MUTED, lw=1, dashes=(4, 3), label="a model, by formula")
    axes.axhline(100 * curve.target, color=_RULE, lw=1, zorder=0)
    axes.set_ylim(0, 103)
    axes.grid(axis="y", color=_RULE, lw=0.5)


def _band(
    axes: Any, at: list[float], held: Sequence[tuple[float, float]], colour: str, marker: str,
    label: str,
) -> None:  # fmt: skip
    power, error = [100 * p for p, _ in held], [196 * e for _, e in held]
    axes.errorbar(
        at, power, yerr=error, color=colour, marker=marker, ms=4.5, ls="none", capsize=2,
        elinewidth=1.0, label=label,
    )  # fmt: skip


def _mark(axes: Any, curve: PowerCurve, value: float | None, form: str) -> None:
    if value is None:
        return
    axes.axvline(value, color=_MODEL, lw=0.8, dashes=(2, 2))
    axes.annotate(
        form.format(value), (value, 3), xytext=(4, 0), textcoords="offset points", color=_MODEL
    )


def _price(axes: Any, cost: Callable[[int], float | None]) -> None:
    """What the seeds below cost, above."""
    ticks = [tick for tick in axes.get_xticks() if tick >= 1]
    prices = [cost(round(tick)) for tick in ticks]
    if not ticks or None in prices:
        return
    limits = axes.get_xlim()
    above = axes.secondary_xaxis("top")
    above.set_xticks(ticks, [f"${price:,.0f}" for price in prices])
    above.tick_params(length=2)
    above.set_xlabel("Cost of all looks", color=_MUTED)
    axes.set_xlim(limits)


def _svg(figure: Any) -> str:
    held = io.StringIO()
    none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(held, format="svg", metadata=none, facecolor="white")
    return held.getvalue()

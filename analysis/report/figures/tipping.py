"""The tipping points: how adverse the missing runs would have to be to undo a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.plan.results import PrimaryResult
from analysis.plan.verdict import CONTAMINATED
from analysis.report.figures import style
from analysis.stats.clearing import CLEARING_LEVEL
from analysis.stats.intervals import p_words

_GRID = style.Grid(left=0.85, right=0.2, gap=0.35, head=0.35, high=1.4, foot=0.6)
_LEAST = 1e-5  # of p; smaller ones are drawn here


@style.styled
def plot_tipping(results: Sequence[PrimaryResult], width: float = style.WIDE) -> str:
    """A panel per model and wave: the adjusted p of its verdict over the number of missing runs
    that are as adverse as can be, and the level that it must stay below. ``results`` have a tipping
    point each. SVG text for inlining in HTML."""
    figure, wide, panels = style.panel_grid(_GRID, len(results), width, label="Adjusted p")
    for axes, result in zip(panels, results, strict=True):
        _draw_panel(axes, result)
        axes.set_title(f"{style.cut(result.model, int(wide * 9))}, wave {result.verdict.wave}")
    name, words = f"tipping-{style.slug(width)}", " ".join(map(_words, results))
    return style.draw_svg(figure, name, "Adjusted p by the missing runs that are adverse", words)


def _draw_panel(axes: Any, result: PrimaryResult) -> None:
    tipping, lost = result.missing.tipping, result.missing.public + result.missing.private
    if tipping is None:
        return
    claimed = tipping.decision == CONTAMINATED
    level = result.verdict.alpha if claimed else CLEARING_LEVEL
    axes.grid(axis="y")
    axes.set_yscale("log")
    axes.set_ylim(_LEAST / 2, 2)
    axes.set_yticks([1, 0.01, 0.0001], ["1", "0.01", "0.0001"])
    axes.minorticks_off()
    axes.set_xlim(0, lost)
    axes.axhline(level, color=style.MUTED, lw=1, dashes=(4, 3))
    style.note(axes, f"level {level:.4g}", (lost, level), (0, 2), ha="right", va="bottom")
    xs = [step.share * lost for step in tipping.curve]
    colour = style.COLOUR[tipping.decision]
    axes.plot(xs, [max(step.p, _LEAST) for step in tipping.curve], color=colour, lw=1.6)
    if tipping.share is not None:
        axes.axvline(tipping.share * lost, color=style.INK, lw=1, dashes=(1.5, 2))
    axes.set_xlabel(f"Adverse, of {lost} missing runs")


def _words(result: PrimaryResult) -> str:
    tipping = result.missing.tipping
    if tipping is None:
        return ""
    ends = [p_words(tipping.curve[place].p) for place in (0, -1)]
    undone = "holds throughout" if tipping.share is None else f"undone by {tipping.runs}"
    where = f"{result.model}, wave {result.verdict.wave}"
    return f"{where}: {tipping.decision}, p {ends[0]} to {ends[1]}, {undone}."

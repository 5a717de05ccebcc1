"""The tipping points: how adverse the missing runs would have to be to undo a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.plan.results import PrimaryResult
from analysis.plan.verdict import CONTAMINATED
from analysis.report.figures import style
from analysis.stats.clearing import CLEARING_LEVEL
from analysis.stats.intervals import p_words

_ACROSS = {style.WIDE: 3, style.NARROW: 1}  # panels
_LEFT, _RIGHT, _GAP, _HEAD, _HIGH, _FOOT = 0.85, 0.2, 0.35, 0.35, 1.4, 0.6  # inches
_LEAST = 1e-5  # of p; smaller ones are drawn here


@style.styled
def plot_tipping(results: Sequence[PrimaryResult], width: float = style.WIDE) -> str:
    """A panel per model and wave: the adjusted p of its verdict over the number of missing runs
    that are as adverse as can be, and the level that it must stay below. ``results`` have a tipping
    point each. SVG text for inlining in HTML."""
    across = min(_ACROSS[width], len(results))
    down, cell = -(-len(results) // across), _HEAD + _HIGH + _FOOT
    wide = (width - _LEFT - _RIGHT - (across - 1) * _GAP) / across
    figure = style.new_figure(width, down * cell)
    for place, result in enumerate(results):
        row, column = divmod(place, across)
        x, y = _LEFT + column * (wide + _GAP), (down - row - 1) * cell + _FOOT
        axes = style.panel(figure, x, y, wide, _HIGH)
        _draw_panel(axes, result)
        axes.set_title(f"{style.cut(result.model, int(wide * 9))}, wave {result.verdict.wave}")
        axes.tick_params(axis="y", labelleft=not column)
        if not column:
            axes.set_ylabel("Adjusted p")
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

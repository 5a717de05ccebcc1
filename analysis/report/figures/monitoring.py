"""The study-level monitoring, look by look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from analysis.plan import CONTAMINATED, Monitored, Onset
from analysis.report.figures.style import (
    COLOUR,
    INK,
    MUTED,
    PAPER,
    RULE,
    WIDE,
    add_axes,
    draw_svg,
    new_figure,
    note,
    slug,
)
from analysis.report.wording import evidence_words, power

_LEFT, _RIGHT, _HIGH, _FOOT, _HEAD = 0.75, 0.25, 1.6, 0.55, 0.3  # inches
_SMALLEST, _LARGEST = 1e-3, 1e6  # of E, as it is drawn


def plot_monitoring(monitored: Monitored, width: float = WIDE) -> str:
    """The statistic of each look against its threshold, and, where the plan has one, the onset
    process against its bound, on a logarithmic scale. SVG text for inlining in HTML."""
    panels = 1 if monitored.onset is None else 2
    height = panels * (_HIGH + _FOOT + _HEAD)
    figure = new_figure(width, height)
    waves = [look.wave for look in monitored.looks]
    if monitored.onset is not None:
        waves = sorted({*waves, *(wave for wave, _ in monitored.onset.values)})
    top = _panel(figure, width, height, 0, waves)
    _draw_statistic(top, monitored)
    if monitored.onset is not None:
        below = _panel(figure, width, height, 1, waves)
        _draw_onset(below, monitored.onset)
    title = "Study-level monitoring by wave"
    return draw_svg(figure, f"monitor-{slug(width)}", title, monitor_words(monitored))


def monitor_words(monitored: Monitored) -> str:
    """What the figure shows."""
    sentences = [
        f"Wave {look.wave}: statistic {look.statistic:.2f}"
        + (f", threshold {look.threshold:.2f}" if look.threshold is not None else "")
        + (", rejects." if look.crossed else ".")
        for look in monitored.looks
    ]
    if monitored.onset is not None:
        sentences += [
            f"Onset process at wave {wave}: E {evidence_words(e)}."
            for wave, e in monitored.onset.values
        ]
    return " ".join(sentences)


def _panel(figure: Any, width: float, height: float, place: int, waves: Sequence[int]) -> Any:
    bottom = height - (place + 1) * (_HIGH + _FOOT + _HEAD) + _FOOT
    wide = (width - _LEFT - _RIGHT) / width
    axes = add_axes(figure, (_LEFT / width, bottom / height, wide, _HIGH / height))
    axes.set_xlim(min(waves, default=0) - 0.5, max(waves, default=0) + 0.5)
    axes.set_xticks(waves, [str(wave) for wave in waves])
    axes.set_xlabel("Wave")
    axes.grid(axis="y", color=RULE, lw=0.6)
    axes.tick_params(axis="both", length=3, color=RULE)
    return axes


def _draw_statistic(axes: Any, monitored: Monitored) -> None:
    waves = [look.wave for look in monitored.looks]
    statistics = [look.statistic for look in monitored.looks]
    axes.plot(waves, statistics, color=INK, lw=1.4)
    for look in monitored.looks:
        if look.threshold is not None:
            ends_of_line = [look.wave - 0.3, look.wave + 0.3]
            axes.plot(ends_of_line, [look.threshold] * 2, color=MUTED, lw=1.4, dashes=(4, 3))
        past = monitored.rejected_at is not None and look.wave >= monitored.rejected_at
        _mark(axes, look.wave, look.statistic, crossed=past)
    first = next((look for look in monitored.looks if look.threshold is not None), None)
    if first is not None:
        place = first.wave - 0.3, first.threshold or 0.0
        note(axes, "threshold", place, (0, 2), ha="left", va="bottom")
    ends = [0.0, *statistics, *(x.threshold for x in monitored.looks if x.threshold is not None)]
    pad = 0.12 * (max(ends) - min(ends) or 1.0)
    axes.set_ylim(min(ends) - pad, max(ends) + pad)
    axes.set_title("Largest standardised gap over windows of looks", loc="left", fontsize=9.5)
    axes.set_ylabel("T")


def _draw_onset(axes: Any, onset: Onset) -> None:
    waves = [wave for wave, _ in onset.values]
    values = [min(max(e, _SMALLEST), _LARGEST) for _, e in onset.values]
    axes.set_yscale("log")
    axes.plot(waves, values, color=INK, lw=1.4)
    axes.axhline(1 / onset.alpha, color=MUTED, lw=1.4, dashes=(4, 3))
    bound = 1 / onset.alpha
    note(axes, f"bound, {bound:g}", (axes.get_xlim()[1], bound), (0, 2), ha="right", va="bottom")
    for wave, e in zip(waves, values, strict=True):
        past = onset.rejected_at is not None and wave >= onset.rejected_at
        _mark(axes, wave, e, crossed=past)
    low = min([0.5, *values]) / 2
    high = max([2 / onset.alpha, *values]) * 3
    axes.set_ylim(low, high)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    ticks = list(range(first, last + 1, max(1, (last - first) // 4)))
    axes.set_yticks([10.0**t for t in ticks], [_power(t) for t in ticks])
    axes.minorticks_off()
    axes.set_title("Onset process: evidence for a gap from some look on", loc="left", fontsize=9.5)
    axes.set_ylabel("E")


def _mark(axes: Any, x: float, y: float, *, crossed: bool) -> None:
    colour = COLOUR[CONTAMINATED] if crossed else INK
    style = {"marker": "D", "mfc": colour} if crossed else {"marker": "o", "mfc": PAPER}
    axes.plot([x], [y], lw=0, ms=6.5, mec=colour, mew=1.5, clip_on=False, **style)


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else f"10{power(exponent)}"

"""The study-level monitoring, look by look."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from analysis.plan import CONTAMINATED, Monitored, Onset
from analysis.report.figures import style
from analysis.report.wording import evidence_words, power

_LEFT, _RIGHT, _HIGH, _FOOT, _HEAD = 0.75, 0.25, 1.6, 0.55, 0.45  # inches
_SMALLEST, _LARGEST = 1e-3, 1e6  # of E, as it is drawn


@style.styled
def plot_monitoring(monitored: Monitored, width: float = style.WIDE) -> str:
    """The statistic of each look against its threshold, and, where the plan has one, the onset
    process against its bound, on a logarithmic scale. SVG text for inlining in HTML."""
    onset = monitored.onset
    values = onset.values if onset else ()
    waves = sorted({look.wave for look in monitored.looks} | {wave for wave, _ in values})
    panel_height = _HIGH + _FOOT + _HEAD
    figure = style.new_figure(width, panel_height * (2 if onset else 1))
    _draw_statistic(_panel(figure, panel_height if onset else 0, waves), monitored)
    if onset:
        _draw_onset(_panel(figure, 0, waves), onset)
    sentences = [
        f"Wave {look.wave}: statistic {look.statistic:.2f}"
        + (f", threshold {look.threshold:.2f}" if look.threshold is not None else "")
        + (", rejects." if look.crossed else ".")
        for look in monitored.looks
    ]
    sentences += [f"Onset process at wave {wave}: E {evidence_words(e)}." for wave, e in values]
    name = f"monitor-{style.slug(width)}"
    return style.draw_svg(figure, name, "Study-level monitoring by wave", " ".join(sentences))


def _panel(figure: Any, bottom: float, waves: Sequence[int]) -> Any:
    width = figure.get_figwidth() - _LEFT - _RIGHT
    axes = style.panel(figure, _LEFT, bottom + _FOOT, width, _HIGH)
    axes.set_xlim(min(waves, default=0) - 0.5, max(waves, default=0) + 0.5)
    axes.set_xticks(waves, [str(wave) for wave in waves])
    axes.set_xlabel("Wave")
    axes.grid(axis="y")
    return axes


def _draw_statistic(axes: Any, monitored: Monitored) -> None:
    looks = monitored.looks
    thresholds: list[float] = []
    for look in looks:
        if look.threshold is not None:
            line = [look.wave - 0.3, look.wave + 0.3], [look.threshold] * 2
            axes.plot(*line, color=style.MUTED, lw=1.4, dashes=(4, 3))
            if not thresholds:
                place = look.wave - 0.3, look.threshold
                style.note(axes, "threshold", place, (0, 2), ha="left", va="bottom")
            thresholds.append(look.threshold)
    statistics = [look.statistic for look in looks]
    _draw_line(axes, [look.wave for look in looks], statistics, monitored.rejected_at)
    ends = [0.0, *statistics, *thresholds]
    pad = 0.12 * (max(ends) - min(ends) or 1.0)
    axes.set_ylim(min(ends) - pad, max(ends) + pad)
    _set_title(axes, "Largest standardised gap over windows of looks")
    axes.set_ylabel("T")


def _draw_onset(axes: Any, onset: Onset) -> None:
    values = [min(max(e, _SMALLEST), _LARGEST) for _, e in onset.values]
    bound = 1 / onset.alpha
    axes.set_yscale("log")
    axes.axhline(bound, color=style.MUTED, lw=1.4, dashes=(4, 3))
    place = axes.get_xlim()[1], bound
    style.note(axes, f"bound, {bound:g}", place, (0, 2), ha="right", va="bottom")
    _draw_line(axes, [wave for wave, _ in onset.values], values, onset.rejected_at)
    low, high = min([0.5, *values]) / 2, max([2 * bound, *values]) * 3
    axes.set_ylim(low, high)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    ticks = range(first, last + 1, max(1, (last - first) // 4))
    axes.set_yticks([10.0**t for t in ticks], [_power(t) for t in ticks])
    axes.minorticks_off()
    _set_title(axes, "Onset process: evidence for a gap from some look on")
    axes.set_ylabel("E")


def _draw_line(
    axes: Any, waves: Sequence[int], values: Sequence[float], rejected_at: int | None
) -> None:
    """A line over the waves, with a filled diamond at each from the rejection on."""
    axes.plot(waves, values, color=style.INK, lw=1.4)
    for wave, value in zip(waves, values, strict=True):
        if rejected_at is not None and wave >= rejected_at:
            colour = style.COLOUR[CONTAMINATED]
            look = {"marker": "D", "mfc": colour, "mec": colour}
        else:
            look = {"marker": "o", "mfc": style.PAPER, "mec": style.INK}
        axes.plot([wave], [value], lw=0, ms=6.5, mew=1.5, clip_on=False, **look)


def _set_title(axes: Any, title: str) -> None:
    """A title, in two lines where the figure is narrow."""
    narrow = axes.figure.get_figwidth() <= style.NARROW
    axes.set_title(textwrap.fill(title, 36) if narrow else title)


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else f"10{power(exponent)}"

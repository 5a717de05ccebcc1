"""The study-level monitoring, look by look."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from analysis.plan.monitoring import Monitored
from analysis.plan.verdict import CONTAMINATED
from analysis.report.figures import style

_LEFT, _RIGHT, _HIGH, _FOOT, _HEAD = 0.75, 0.25, 1.6, 0.55, 0.45  # inches


@style.styled
def plot_monitoring(monitored: Monitored, width: float = style.WIDE) -> str:
    """The statistic of each look against its threshold. SVG text for inlining in HTML."""
    waves = [look.wave for look in monitored.looks]
    figure = style.new_figure(width, _HIGH + _FOOT + _HEAD)
    _draw_statistic(_panel(figure, waves), monitored)
    sentences = [
        f"Wave {look.wave}: statistic {look.statistic:.2f}"
        + (f", threshold {look.threshold:.2f}" if look.threshold is not None else "")
        + (", rejects." if look.crossed else ".")
        for look in monitored.looks
    ]
    name = f"monitor-{style.slug(width)}"
    return style.draw_svg(figure, name, "Study-level monitoring by wave", " ".join(sentences))


def _panel(figure: Any, waves: Sequence[int]) -> Any:
    width = figure.get_figwidth() - _LEFT - _RIGHT
    axes = style.panel(figure, _LEFT, _FOOT, width, _HIGH)
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

"""Plots as inline SVG whose colours are the page's, so that they follow its light and dark.

Bytes are deterministic: no date, ids from a fixed salt, text as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from analysis.look import ArmMean
from analysis.verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, Verdict
from registry.tables import Arm

WIDE, NARROW = 7.4, 3.7  # inches of 72 points: a desktop column, a phone
_ROW = 0.36  # inches

# Stand-ins that the page's CSS variables replace; shapes tell verdicts apart without colour.
_INK, _MUTED, _RULE, _PAPER = "#010101", "#020202", "#030303", "#070707"
_COLOUR = {CONTAMINATED: "#040404", NO_INFLATION: "#050505", INCONCLUSIVE: "#060606"}
_MARKER = {CONTAMINATED: "D", NO_INFLATION: "o", INCONCLUSIVE: "s"}
_VARIABLES = {
    _INK: "--ink", _MUTED: "--muted", _RULE: "--rule", _PAPER: "--paper",
    _COLOUR[CONTAMINATED]: "--contaminated", _COLOUR[NO_INFLATION]: "--clean",
    _COLOUR[INCONCLUSIVE]: "--unsure",
}  # fmt: skip
_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "dosimeter", "font.family": "sans-serif",
    "font.size": 9.5, "text.parse_math": False, "text.color": _INK, "axes.labelcolor": _INK,
    "axes.edgecolor": _RULE, "xtick.color": _MUTED, "ytick.color": _INK, "lines.solid_capstyle":
    "butt", "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "axes.unicode_minus": True,
}  # fmt: skip


def plot_gaps(verdicts: Sequence[Verdict], margin: float, width: float = WIDE) -> str:
    """One row per model and wave: the gap with its 95 % interval, a line at zero and one at the
    margin, the verdict by shape and colour. SVG text for inlining in HTML."""
    rows = [verdict for verdict in verdicts if verdict.estimate is not None]
    figure, axes = _canvas(len(rows), width, [_label(v.model, v.wave, width) for v in rows])
    low, high = _gap_range(rows, margin)
    axes.set_xlim(low, high)
    axes.axvline(0, color=_MUTED, lw=1)
    axes.axvline(margin, color=_MUTED, lw=1, dashes=(4, 3))
    _caption_line(axes, margin, f" margin {_points(margin)}")
    for y, verdict in enumerate(rows):
        _draw_gap(axes, y, verdict, (low, high))
    axes.set_xlabel("Gap: public minus private, points")
    _point_ticks(axes)
    return _svg(figure, f"gap-{_slug(width)}", "Gap by model and wave", _gap_words(rows))


def plot_arms(means: Sequence[ArmMean], width: float = WIDE) -> str:
    """One row per model and wave: the mean score in each arm, averaged over strata, with 95 %
    intervals; private is open, public filled. SVG text for inlining in HTML."""
    whole = [mean for mean in means if not mean.stratum]
    keys = sorted({(m.wave, m.model) for m in whole})
    figure, axes = _canvas(len(keys), width, [_label(model, wave, width) for wave, model in keys])
    axes.set_xlim(-0.02, 1.02)
    for mean in whole:
        _draw_mean(axes, keys.index((mean.wave, mean.model)), mean)
    axes.set_xlabel("Mean score, points of 100")
    _point_ticks(axes)
    return _svg(figure, f"arms-{_slug(width)}", "Mean score by arm", _arm_words(whole))


def _canvas(rows: int, width: float, labels: list[str]) -> tuple[Any, Any]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        height = _ROW * max(rows, 1) + 0.85
        figure = Figure(figsize=(width, height))
        left = min(0.42, (0.085 * max([8, *map(len, labels)]) + 0.2) / width)
        axes = figure.add_axes((left, 0.55 / height, 0.97 - left, 1 - 0.85 / height))
        axes.set_ylim(max(rows, 1) - 0.45, -0.55)
        axes.set_yticks(range(rows), labels)
        axes.tick_params(axis="y", length=0, pad=8)
        axes.tick_params(axis="x", length=3, color=_RULE)
        axes.grid(axis="x", color=_RULE, lw=0.6)
        axes.set_axisbelow(True)
    return figure, axes


def _draw_gap(axes: Any, y: int, verdict: Verdict, limits: tuple[float, float]) -> None:
    colour = _COLOUR[verdict.verdict]
    low, high = (min(max(end, limits[0]), limits[1]) for end in verdict.interval)
    axes.plot([low, high], [y, y], color=colour, lw=1.8)
    fill = _PAPER if verdict.verdict == INCONCLUSIVE else colour
    axes.plot(
        [verdict.estimate], [y], _MARKER[verdict.verdict], ms=7,
        mfc=fill, mec=colour, mew=1.6, clip_on=False,
    )  # fmt: skip


def _draw_mean(axes: Any, row: int, mean: ArmMean) -> None:
    public = mean.arm == Arm.PUBLIC
    y = row + (-0.13 if public else 0.13)
    colour = _INK if public else _MUTED
    if mean.estimate.interval is not None:
        axes.plot(mean.estimate.interval, [y, y], color=colour, lw=1.4)
    axes.plot([mean.estimate.mean], [y], "o", ms=5.5, mfc=colour if public else _PAPER,
              mec=colour, mew=1.4, clip_on=False)  # fmt: skip


def _gap_range(rows: Sequence[Verdict], margin: float) -> tuple[float, float]:
    ends = [end for v in rows for end in (*v.interval, v.estimate or 0.0)]
    low, high = min([-margin, *ends]), max([2 * margin, *ends])
    pad = 0.05 * (high - low)
    return max(-1.0, low - pad), min(1.0, high + pad)


def _caption_line(axes: Any, x: float, text: str) -> None:
    axes.annotate(
        text, (x, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
        textcoords="offset points", color=_MUTED, fontsize=8.5, va="bottom",
    )  # fmt: skip


def _point_ticks(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.0f}".replace("-", "−")))


def _svg(figure: Any, name: str, title: str, words: str) -> str:
    """The figure as an ``<svg>`` element: nothing before it, its own id prefix, page colours."""
    from matplotlib import rc_context

    held = io.StringIO()
    with rc_context(_STYLE):
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(held, format="svg", metadata=none, transparent=True)
    text = held.getvalue()
    view = re.search(r'viewBox="[^"]+"', text)
    body = text[text.index("<defs") : text.rindex("</svg>")]
    body = re.sub(r"<(style|metadata).*?</\1>", "", body, flags=re.DOTALL)  # would reach the page
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body.replace("xlink:href", "href"))
    body = re.sub("|".join(_VARIABLES), lambda found: f"var({_VARIABLES[found.group(0)]})", body)
    body = re.sub(r'font-family: [^;"]*', "font-family: var(--sans)", body)
    return (
        f'<svg {view.group(0) if view else ""} role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(words)}</desc>'
        f"{body}</svg>"
    )


def _gap_words(rows: Sequence[Verdict]) -> str:
    return " ".join(
        f"{v.model}, wave {v.wave}: {_points(v.estimate or 0.0)} "
        f"({_points(v.interval[0])} to {_points(v.interval[1])}), {v.verdict}."
        for v in rows
    )


def _arm_words(means: Sequence[ArmMean]) -> str:
    return " ".join(
        f"{m.model}, wave {m.wave}, {m.arm}: {100 * m.estimate.mean:.1f}." for m in means
    )


def _label(model: str, wave: int, width: float) -> str:
    """Model and wave, cut to what the margin holds."""
    room = 32 if width > NARROW else 14
    short = model if len(model) <= room else model[: room - 1] + "…"
    return f"{short}, wave {wave}" if width > NARROW else f"{short} · {wave}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _slug(width: float) -> str:
    return "narrow" if width <= NARROW else "wide"

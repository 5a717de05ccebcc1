"""Figure of what models answer that were trained on a release at known doses."""

from __future__ import annotations

from typing import Any

from analysis.plan.verdict import INCONCLUSIVE
from analysis.report.figures import style
from examples.calibration.doses import DoseResponse

_LEFT, _RIGHT, _FOOT, _HEAD, _HIGH = 0.6, 0.15, 0.62, 0.34, 2.2  # inches
_PRIVATE, _PUBLIC = style.CATEGORIES  # distinguished by marker too


@style.styled
def plot_doses(response: DoseResponse, width: float = style.WIDE) -> str:
    """Return an ``<svg>`` element of two panels: right answers in each arm by dose, and each
    model's gap with its verdict."""
    narrow, height = width <= style.NARROW, _HIGH + _FOOT + _HEAD
    across = width if narrow else width / 2
    verdicts = [m.verdict for row in response.rows for m in row.models if m.verdict]
    marks = style.verdict_marks(verdicts)
    figure, _ = style.keyed_figure(width, height * (2 if narrow else 1), marks)
    places = [(0, height), (0, 0)] if narrow else [(0, 0), (across, 0)]
    for (x, y), draw in zip(places, (_draw_arms, _draw_dosed_gaps), strict=True):
        axes = style.panel(figure, x + _LEFT, y + _FOOT, across - _LEFT - _RIGHT, _HIGH)
        axes.set_xticks(range(len(response.rows)), [f"{row.dose}" for row in response.rows])
        axes.set_xlim(-0.4, len(response.rows) - 0.6)
        axes.set_xlabel("Copies of each public instance in training")
        axes.grid(axis="y")
        draw(axes, response)
        style.points_axis(axes.yaxis)
    words = ", ".join(
        f"{row.dose} copies: public {100 * row.public.mean:.0f} %, private "
        f"{100 * row.private.mean:.0f} %, {row.found} of {row.tested} contaminated"
        for row in response.rows
    )
    return style.draw_svg(figure, f"doses-{style.slug(width)}", "Answers by dose", f"{words}.")


def _draw_arms(axes: Any, response: DoseResponse) -> None:
    for name, colour, marker, above in (
        ("public", _PUBLIC, "s", 7),
        ("private", _PRIVATE, "o", -24),
    ):
        arms = [getattr(row, name) for row in response.rows]
        means = [arm.mean for arm in arms]
        errors = [[abs(arm.interval[end] - arm.mean) for arm in arms] for end in (0, 1)]
        look = {"color": colour, "marker": marker, "ms": 4.5, "lw": 1.2, "elinewidth": 1.0}
        axes.errorbar(range(len(arms)), means, yerr=errors, capsize=2, **look)
        style.note(axes, name, (len(arms) - 1, means[-1]), (-4, above), color=colour, ha="right")
    axes.set_ylim(0, 1.1)
    axes.set_title("Right answers, %")


def _draw_dosed_gaps(axes: Any, response: DoseResponse) -> None:
    gaps = []
    for place, row in enumerate(response.rows):
        step = 0.14
        for index, model in enumerate(row.models):
            x = place + step * (index - (len(row.models) - 1) / 2)
            style.mark_verdict(axes, x, model.gap, model.verdict or INCONCLUSIVE, 5.5)
            gaps.append(model.gap)
    limits = {"limit of blank": response.blank, "limit of detection": response.limit}
    last = len(response.rows) - 0.6
    for name, value in limits.items():
        if value is not None:
            axes.axhline(value, color=style.MUTED, lw=0.9, dashes=(3, 2))
            style.note(axes, f"{name}, {100 * value:.1f}", (last, value), (-2, 2), ha="right")
    axes.axhline(0, color=style.RULE, lw=1, zorder=0)
    low, high = min([0.0, *gaps]), max([0.05, *gaps])
    axes.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axes.set_title("Gap of each model, points, by its verdict")

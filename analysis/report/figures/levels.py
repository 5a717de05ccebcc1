"""Mean scores against the difficulty levels of the task families that have several."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from analysis.plan.look import ArmMean
from analysis.report.figures import style
from analysis.stats.intervals import points
from registry.result_row import Arm

_NAMES = ("easy", "medium", "hard")
_NUMBERED = re.compile(r"(?:level[-_ ]?)?(\d+)")
_MOST = 12  # panels
_GRID = style.Grid(left=0.5, right=0.2, gap=0.3, head=0.5, high=1.3, foot=0.4)
_APART = 0.06  # of the arms, in levels

Panel = tuple[str, int, str, list[str]]  # model, wave, family, strata from the easiest on


def level_panels(means: Sequence[ArmMean]) -> list[Panel]:
    """The models of the newest wave on each family with several levels: easy, medium and hard, or
    numbers, as in ``level-3``."""
    ranks: dict[str, dict[str, int]] = defaultdict(dict)
    for name in {mean.stratum for mean in means}:
        family, _, level = name.rpartition("/")
        if level in _NAMES:
            ranks[family][name] = _NAMES.index(level)
        elif numbered := _NUMBERED.fullmatch(level):
            ranks[family][name] = int(numbered[1])
    newest = max((mean.wave for mean in means), default=0)
    models = dict.fromkeys(mean.model for mean in means if mean.wave == newest)
    return [
        (model, newest, family, sorted(strata, key=lambda name: strata[name]))
        for model in models
        for family, strata in sorted(ranks.items())
        if len(strata) > 1
    ][:_MOST]


@style.styled
def plot_levels(means: Sequence[ArmMean], width: float = style.WIDE) -> str:
    """A panel per model and family: the mean score of each arm over the levels, with its 95 %
    interval. ``means`` have a panel at least. SVG text for inlining in HTML."""
    panels = level_panels(means)
    figure, wide, drawn = style.panel_grid(_GRID, len(panels), width, [_mark(arm) for arm in Arm])
    words = []
    for axes, (model, wave, family, strata) in zip(drawn, panels, strict=True):
        axes.set_title("\n".join(style.cut(text, int(wide * 13)) for text in (model, family)))
        own = [mean for mean in means if (mean.model, mean.wave) == (model, wave)]
        words.append(f"{model}, {family}: {_draw_panel(axes, own, strata)}.")
    name = f"levels-{style.slug(width)}"
    return style.draw_svg(figure, name, "Mean score by difficulty level and arm", " ".join(words))


def _draw_panel(axes: Any, means: Sequence[ArmMean], strata: Sequence[str]) -> str:
    """Draw both arms of one model; return their scores in words."""
    scored: dict[str, list[str]] = {stratum.rpartition("/")[2]: [] for stratum in strata}
    axes.grid(axis="y")
    for arm, shift in ((Arm.PUBLIC, -_APART), (Arm.PRIVATE, _APART)):
        scores = {mean.stratum: mean.estimate for mean in means if mean.arm == arm}
        found = [(x + shift, scores[name]) for x, name in enumerate(strata) if name in scores]
        for x, estimate in found:
            if estimate.interval is not None:
                axes.plot([x, x], estimate.interval, color=style.MUTED, lw=1)
            scored[strata[round(x)].rpartition("/")[2]].append(f"{points(estimate.mean)} {arm}")
        xs, ys = [x for x, _ in found], [estimate.mean for _, estimate in found]
        axes.plot(xs, ys, clip_on=False, **_look(arm))
    axes.set_ylim(0, 1)
    style.points_axis(axes.yaxis)
    axes.set_xlim(-0.4, len(strata) - 0.6)
    axes.set_xticks(range(len(strata)), list(scored))
    return "; ".join(f"{level} {', '.join(scores)}" for level, scores in scored.items())


def _look(arm: Arm) -> dict[str, Any]:
    public = arm == Arm.PUBLIC
    return {
        "color": style.INK,
        "ls": "-" if public else (0, (3, 2)),
        "lw": 1.4,
        "marker": "o",
        "ms": 5,
        "mfc": style.INK if public else style.PAPER,
    }


def _mark(arm: Arm) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=f"{arm} instances", **_look(arm))

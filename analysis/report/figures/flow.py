"""The flow of instances and runs, from the draw to the test, as trial reports show it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.report.figures import style
from analysis.report.report import Report
from analysis.stats.intervals import counted
from registry.result_row import Arm

_BOX, _ARROW, _EDGE, _LINE = 0.2, 0.42, 0.08, 0.16  # inches
_LETTER = 0.066  # inches, of a text


@dataclass(frozen=True, slots=True)
class Stage:
    """A box: what there is, and what was lost on the way to it."""

    text: str
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """``drawn`` describes all instances, "" for a table from elsewhere; ``arms`` have a stage each
    for their instances, the runs owed, the runs with a score, and the instances tested."""

    drawn: str
    arms: tuple[tuple[Stage, ...], ...]


def make_flow(report: Report) -> Flow:
    """The flow of the models under test, all waves together."""
    plan, known = report.plan, report.registered is not None
    per_arm = len(plan.strata) * (plan.seeds_per_arm + sum(report.reserve))
    strata = counted(len(plan.strata), "stratum", "strata")
    drawn = f"Drawn: {counted(2 * per_arm, 'instance')} in {strata}, allocated to arms at random"
    arms = (tuple(_stages(report, arm, per_arm if known else None)) for arm in Arm)
    return Flow(drawn if known else "", tuple(arms))


def _stages(report: Report, arm: Arm, drawn: int | None) -> Iterator[Stage]:
    tested = {(v.wave, v.model): v for v in report.verdicts}
    rows = [row for row in report.funnel if row.arm == arm and (row.wave, row.model) in tested]
    owed, absent, missing, scored, failed = (
        sum(getattr(row, name) for row in rows)
        for name in ("owed", "absent", "missing", "scored", "model_failure")
    )
    name = arm.capitalize()
    yield Stage(name if drawn is None else f"{name}: {counted(drawn, 'instance')}")
    models = counted(len({row.model for row in rows}), "model")
    yield Stage(f"{counted(owed, 'run')} owed by {models} under test")
    failures = counted(failed, "failure")
    yield Stage(
        f"{counted(scored + failed, 'run')} with a score, {failures} of the model, scored 0, "
        "among them",
        f"{absent} not run, {missing} missing",
    )
    numbers = [v.n_public if arm == Arm.PUBLIC else v.n_private for v in tested.values()]
    dropped = _span([row.seeds_dropped for row in rows])
    yield Stage(f"Tested: {_span(numbers)} instances a model", f"{dropped} without a score")


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return str(low) if low == high else f"{low} to {high}"


@style.styled
def plot_flow(flow: Flow, width: float = style.WIDE) -> str:
    """Boxes from the draw to the test, a column for each arm. SVG text for inlining in HTML."""
    wide = (width - 3 * _EDGE) / 2
    rows = [
        [(stage, _wrapped(stage.text, wide)) for stage in row]
        for row in zip(*flow.arms, strict=True)
    ]
    if flow.drawn:
        rows.insert(0, [(Stage(flow.drawn), _wrapped(flow.drawn, width - 2 * _EDGE))])
    heights = [_BOX + _LINE * max(len(lines) for _, lines in row) for row in rows]
    total = sum(heights) + _ARROW * (len(heights) - 1) + 2 * _EDGE
    figure = style.new_figure(width, total)
    axes = style.panel(figure, 0, 0, width, total)
    axes.set_xlim(0, width)
    axes.set_ylim(total, 0)
    axes.axis("off")
    y = _EDGE
    for place, (row, high) in enumerate(zip(rows, heights, strict=True)):
        own = wide if len(row) > 1 else width - 2 * _EDGE
        for side, (stage, lines) in enumerate(row):
            x = _EDGE + side * (wide + _EDGE)
            _draw_box(axes, (x, y, own, high), lines)
            if place:
                _draw_arrow(axes, x + own / 2, y, stage.lost)
        y += high + _ARROW
    words = "; ".join(filter(None, [flow.drawn, *map(_words, flow.arms)]))
    return style.draw_svg(figure, f"flow-{style.slug(width)}", "From the draw to the test", words)


def _words(stages: Sequence[Stage]) -> str:
    return ", ".join(part for stage in stages for part in (stage.lost, stage.text) if part)


def _wrapped(text: str, wide: float) -> list[str]:
    return textwrap.wrap(text, int((wide - 2 * _EDGE) / _LETTER))


def _draw_box(axes: Any, box: tuple[float, float, float, float], lines: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    x, y, wide, high = box
    axes.add_patch(Rectangle((x, y), wide, high, fill=False, ec=style.MUTED, lw=0.8))
    middle = x + wide / 2, y + high / 2
    axes.text(*middle, "\n".join(lines), ha="center", va="center", linespacing=1.25, fontsize=8.5)


def _draw_arrow(axes: Any, x: float, y: float, lost: str) -> None:
    """An arrow down to a box, with what was lost beside it."""
    line = {"arrowstyle": "-|>", "color": style.MUTED, "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x, y), (x, y - _ARROW), arrowprops=line)
    style.note(axes, lost, (x, y - _ARROW / 2), (6, 0), va="center")

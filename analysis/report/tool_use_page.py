"""Tool-use tables as files: a page with plots, and CSV beside it.

The plots are bars of the page's own markup: they need no script and no drawing library, follow
the window's width, and carry their numbers as text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from analysis.files import write_whole
from analysis.report.sections import SeedRow, TaskRow, ToolRow, ToolUseTables

_COLOURS = (
    "#0b66a3", "#b3470a", "#2a7d4f", "#8a4f9e", "#a8324a", "#5a6b1f",
    "#3f51a5", "#7a4b2a", "#00707a", "#9a2f7d", "#4d5a66", "#6d5c00", "#66686e",
)  # fmt: skip
_LABELLED = 0.09  # of a bar: narrower parts have no room for a number


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: how many calls of which tool."""

    tool: str
    colour: str
    calls: int
    labelled: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; ``length`` is its share of the longest beside it."""

    label: str
    calls: int
    length: float
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A task and difficulty: a row a model, a column a seed."""

    title: str
    seeds: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Bar | None, ...]], ...]  # None: no episode there


def write_tool_files(folder: Path, tables: ToolUseTables, study: str) -> Path:
    """Write ``tools.html`` and four CSV files into the folder, each whole or not at all; the
    page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("models", "by_tool", "by_task", "by_seed"):
        write_whole(folder / f"{name}.csv", rows_csv(getattr(tables, name)))
    page = folder / "tools.html"
    write_whole(page, render_page(tables, study))
    return page


def rows_csv(rows: Sequence[Any]) -> str:
    """Rows of one kind as CSV with a header; empty where there are none. Unknown is an empty
    field."""
    if not rows:
        return ""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(field.name for field in fields(rows[0]))
    writer.writerows(asdict(row).values() for row in rows)
    return target.getvalue()


def render_page(tables: ToolUseTables, study: str) -> str:
    """The page, self-contained."""
    from jinja2 import Environment, StrictUndefined

    template = files("analysis.report").joinpath("templates/tooluse.html.j2")
    source = template.read_text(encoding="utf-8")
    # Autoescape is on: model and tool names are text, never markup.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(
        study=study,
        found=tables,
        colours=_colours(tables),
        totals=model_bars(tables),
        tasks=task_bars(tables),
        grids=seed_grids(tables),
    )


def model_bars(tables: ToolUseTables) -> tuple[Bar, ...]:
    """All calls of each model, by tool."""
    labels = [_subject(each, tables) for each in tables.models]
    groups = [
        [row for row in tables.by_tool if (row.wave, row.model) == (each.wave, each.model)]
        for each in tables.models
    ]
    return _bars(labels, groups, tables)


def task_bars(tables: ToolUseTables) -> tuple[tuple[str, tuple[Bar, ...]], ...]:
    """For each task and difficulty a bar a model, by tool."""
    made = []
    for task, difficulty in dict.fromkeys((r.task, r.difficulty) for r in tables.by_task):
        own = [r for r in tables.by_task if (r.task, r.difficulty) == (task, difficulty)]
        subjects = list(dict.fromkeys((r.wave, r.model) for r in own))
        groups = [[r for r in own if (r.wave, r.model) == subject] for subject in subjects]
        labels = [_subject(group[0], tables) for group in groups]
        made.append((f"{task}, {difficulty}", _bars(labels, groups, tables)))
    return tuple(made)


def seed_grids(tables: ToolUseTables) -> tuple[Grid, ...]:
    """For each task and difficulty the calls at each seed."""
    grids = []
    for task, difficulty in dict.fromkeys((r.task, r.difficulty) for r in tables.by_seed):
        own = [r for r in tables.by_seed if (r.task, r.difficulty) == (task, difficulty)]
        grids.append(_grid(f"{task}, {difficulty}", own, tables))
    return tuple(grids)


def _grid(title: str, own: list[SeedRow], tables: ToolUseTables) -> Grid:
    seeds = tuple(sorted({row.seed for row in own}))
    cells: dict[tuple[int, str], dict[int, list[SeedRow]]] = {}
    for row in own:
        cells.setdefault((row.wave, row.model), {}).setdefault(row.seed, []).append(row)
    rows = []
    for by_seed in cells.values():
        label = _subject(next(iter(by_seed.values()))[0], tables)
        bars = _bars([""] * len(by_seed), list(by_seed.values()), tables)
        at = dict(zip(by_seed, bars, strict=True))
        rows.append((label, tuple(at.get(seed) for seed in seeds)))
    return Grid(title, seeds, tuple(rows))


def _bars(
    labels: Sequence[str],
    groups: Sequence[Sequence[ToolRow | TaskRow | SeedRow]],
    tables: ToolUseTables,
) -> tuple[Bar, ...]:
    totals = [sum(row.calls for row in group) for group in groups]
    longest = max([1, *totals])
    colours = _colours(tables)
    return tuple(
        Bar(
            label,
            total,
            total / longest,
            tuple(
                Part(row.tool, colours[row.tool], row.calls, row.calls >= _LABELLED * total)
                for row in group
                if row.calls
            ),
        )
        for label, total, group in zip(labels, totals, groups, strict=True)
    )


def _colours(tables: ToolUseTables) -> dict[str, str]:
    return dict(zip(tables.tools, _COLOURS, strict=False))


def _subject(row: Any, tables: ToolUseTables) -> str:
    """The model; and the wave, where there are several."""
    several = len({each.wave for each in tables.models}) > 1
    return f"{row.model}, wave {row.wave}" if several else str(row.model)

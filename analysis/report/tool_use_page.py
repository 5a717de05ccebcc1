"""Tool-use tables as files: a page with plots, and CSV beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from analysis.files import write_whole
from analysis.report.figures import Bar, css_variables, plot_bar_grid, plot_bars
from analysis.report.sections import SeedRow, TaskRow, ToolRow, ToolUseTables

_R = TypeVar("_R", TaskRow, SeedRow)
_K = TypeVar("_K")


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
    """Rows of one kind as CSV with a header; empty without any. Unknown is an empty field."""
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
    # Autoescape is on: model and tool names are text, never markup.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(
        study=study,
        found=tables,
        variables=css_variables(),
        totals=list(_total_plots(tables)),
        tasks=list(_task_plots(tables)),
        seeds=list(_seed_plots(tables)),
    )


def _total_plots(tables: ToolUseTables) -> Iterator[tuple[str, str]]:
    """All calls of each model, by tool."""
    bars = [
        _bar(
            _subject(model, tables),
            [row for row in tables.by_tool if (row.wave, row.model) == (model.wave, model.model)],
        )
        for model in tables.models
    ]
    if bars:
        yield "Calls by tool", plot_bars(bars, tables.tools, "tools", "Calls by model and tool")


def _task_plots(tables: ToolUseTables) -> Iterator[tuple[str, str]]:
    """For each task and difficulty a bar for each model, by tool."""
    for place, (title, rows) in enumerate(_by_task(tables.by_task).items()):
        bars = [
            _bar(_subject(model_rows[0], tables), model_rows)
            for model_rows in _by_model(rows).values()
        ]
        yield title, plot_bars(bars, tables.tools, f"task-{place}", f"{title}: calls by tool")


def _seed_plots(tables: ToolUseTables) -> Iterator[tuple[str, str]]:
    """For each task and difficulty the calls at each seed."""
    for place, (title, rows) in enumerate(_by_task(tables.by_seed).items()):
        seeds = sorted({row.seed for row in rows})
        grid = {
            _subject(model_rows[0], tables): {
                seed: _bar("", at_seed)
                for seed in seeds
                if (at_seed := [row for row in model_rows if row.seed == seed])
            }
            for model_rows in _by_model(rows).values()
        }
        name = f"{title}: calls by seed"
        yield title, plot_bar_grid(grid, seeds, tables.tools, f"seeds-{place}", name)


def _bar(label: str, rows: Sequence[ToolRow | TaskRow | SeedRow]) -> Bar:
    return Bar(label, {row.tool: row.calls for row in rows})


def _grouped(rows: Iterable[_R], key: Callable[[_R], _K]) -> Mapping[_K, list[_R]]:
    groups: dict[_K, list[_R]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _by_task(rows: Sequence[_R]) -> Mapping[str, list[_R]]:
    return _grouped(rows, lambda row: f"{row.task}, {row.difficulty}")


def _by_model(rows: Sequence[_R]) -> Mapping[tuple[int, str], list[_R]]:
    return _grouped(rows, lambda row: (row.wave, row.model))


def _subject(row: Any, tables: ToolUseTables) -> str:
    """The model; and the wave, if there are several."""
    several = len({model.wave for model in tables.models}) > 1
    return f"{row.model}, wave {row.wave}" if several else str(row.model)

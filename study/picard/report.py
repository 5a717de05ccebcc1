"""``dosimeter template report``: run folders broken down, as CSV files and in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from analysis.picard import WIDTHS, Answers, TableSet, make_tables, write_tables
from registry.canonical import digest_value
from study.cli import print_json, stdout
from study.errors import StudyError
from study.picard.answers import answers_of_runs


@dataclass(frozen=True, slots=True)
class RunReport:
    """The tables of some run folders, where they were written, and what is to be told."""

    tables: TableSet
    files: tuple[Path, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **self.tables.as_json(),
            "files": [str(path) for path in self.files],
            "warnings": list(self.warnings),
        }


def report_runs(
    folders: Sequence[str],
    out: Path,
    *,
    templates: Sequence[str] = (),
    remaps: Sequence[str] = (),
    widths: Sequence[float] = WIDTHS,
) -> RunReport:
    """Score run folders, break them down, and write the tables as CSV into ``out``.

    The same folders give the same bytes. Raises StudyError, AnalysisError, TemplateError before
    anything is written.
    """
    answers, warnings = answers_of_runs(folders, datetime.now(UTC), templates, remaps)
    tables = make_tables(answers, digest_answers(answers), of_study=False, widths=widths)
    try:
        files = write_tables(out, tables)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(f"{out}: {reason}; give a folder that you may write") from None
    return RunReport(tables, tuple(files), tuple(warnings))


def digest_answers(answers: Answers) -> str:
    """The digest of what the tables are made from, but for the names of instances."""
    names = ("model", "question", "replicate", "strict", "lenient", "rounds", "answered")
    return digest_value([[getattr(row, name) for name in names] for row in answers.rows])


def print_run_report(report: RunReport, as_json: bool) -> None:
    """Who was how good, and which answer formats cost most; the rest is in the files."""
    if as_json:
        print_json(report.as_json())
        return
    console = stdout()
    console.print(_overall(report.tables))
    if report.tables.breakdown.failure_modes:
        console.print(_failure_modes(report.tables))
    for warning in report.warnings:
        console.print(f"[yellow]warning[/] {escape(warning)}", soft_wrap=True)
    for path in report.files:
        console.print(f"wrote {escape(str(path))}", soft_wrap=True)


def _overall(tables: TableSet) -> Table:
    table = _table("Right answers, %, with 95 % intervals")
    for name in ("answers", "strict", "lenient", "formatting", "task", "no answer"):
        table.add_column(name, justify="right")
    for row in tables.tables["overall"]:
        table.add_row(
            escape(row["model"]),
            str(row["answers"]),
            _share(row, "accuracy"),
            _share(row, "lenient_accuracy"),
            *(str(row[name]) for name in ("formatting_failures", "task_failures", "unanswered")),
        )
    return table


def _failure_modes(tables: TableSet) -> Table:
    table = _table("One task in several answer formats: right answers, %, with 95 % intervals")
    table.add_column("questions", overflow="fold")
    for name in ("file", "direct", "overall"):
        table.add_column(name, justify="right")
    table.add_column("weakness pattern")
    for row in tables.tables["failure_modes"]:
        doubt = "" if row["gap_excludes_zero"] is not False else " (gap may be chance)"
        table.add_row(
            escape(row["model"]),
            escape(row["group"]),
            *(_share(row, name) for name in ("file", "direct", "overall")),
            row["weakness_pattern"] + (doubt if row["weakness_pattern"].endswith("Output") else ""),
        )
    return table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    return table


def _share(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    return f"{row[name]:.1%} ({row[f'{name}_low']:.1%} to {row[f'{name}_high']:.1%})".replace(
        "%", ""
    )

"""``dosimeter template check``: reads the files, and prints what is to be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from generators.templates import GUESSABLE, QuestionReport, TemplateReport, check_text
from generators.templates.language import Problem
from study.cli import print_json, stdout
from study.errors import StudyError
from study.protocol import read_template


def check_files(names: Sequence[str]) -> tuple[TemplateReport, ...]:
    """A report for each file; one that cannot be read has that as its only error."""
    return tuple(_check(name) for name in names)


def _check(name: str) -> TemplateReport:
    try:
        _, text = read_template(Path(), name)
    except StudyError as error:
        said = str(error).removeprefix(f"{name}: ")
        return TemplateReport(name, "", (Problem(1, (), said),), (), ())
    return check_text(text, name)


def print_reports(reports: Sequence[TemplateReport], as_json: bool) -> None:
    """A table of its questions for each file, then its errors and warnings, one a line."""
    if as_json:
        print_json([report.as_json() for report in reports])
        return
    console = stdout()
    for report in reports:
        if report.questions:
            console.print(_table(report))
        for problem in report.errors:
            _print_problem("[bold red]error[/]", problem, report.path)
        for problem in report.warnings:
            _print_problem("[yellow]warning[/]", problem, report.path)
        console.print(escape(_summary(report)), soft_wrap=True, emoji=False)


def _print_problem(kind: str, problem: Problem, path: str) -> None:
    stdout().print(f"{kind} {escape(problem.text(path))}", soft_wrap=True, emoji=False)


def _table(report: TemplateReport) -> Table:
    table = Table(title=escape(report.path), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("question")
    table.add_column("scoring type")
    for name in ("samples", "log10 variables", "log10 data", "answers", "commonest", "guess"):
        table.add_column(name, justify="right")
    for question in report.questions:
        table.add_row(*_cells(question))
    return table


def _cells(question: QuestionReport) -> tuple[str, ...]:
    share = _number(question.most_frequent, "{:.1%}")
    if (question.most_frequent or 0) > GUESSABLE:
        share = f"[yellow]{share}[/]"
    answers = "–" if question.distinct is None else f"{question.distinct}/{question.simulated}"
    return (
        escape(question.id),
        escape(question.scoring_type),
        str(question.samples),
        _number(question.log10_variables, "{:.1f}"),
        _number(question.log10_data, "{:.1f}"),
        answers,
        share,
        _number(question.constant_guess, "{:.1%}"),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _summary(report: TemplateReport) -> str:
    errors, warnings = len(report.errors), len(report.warnings)
    said = f"{report.path}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    size = report.log10_tests
    return said if size is None or not report.questions else f"{said}; 10^{size:.0f} distinct tests"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

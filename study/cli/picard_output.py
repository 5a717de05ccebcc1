"""What the commands of ``dosimeter template`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from analysis.picard import TableSet
from generators.templates import GUESSABLE, QuestionReport, TemplateReport
from generators.templates.language import Problem
from study.cli.output import print_json, print_records, stdout
from study.picard import RunReport, RunScores

_MOST_LISTED = 10  # samples that two scores disagree on


def print_template_reports(reports: Sequence[TemplateReport], as_json: bool) -> None:
    """A table of its questions for each file, then its errors and warnings, one a line."""
    if as_json:
        print_json([report.as_json() for report in reports])
        return
    console = stdout()
    for report in reports:
        if report.questions:
            console.print(_questions(report))
        for problem in report.errors:
            _print_problem("[bold red]error[/]", problem, report.path)
        for problem in report.warnings:
            _print_problem("[yellow]warning[/]", problem, report.path)
        console.print(escape(_counts(report)), soft_wrap=True, emoji=False)


def _print_problem(kind: str, problem: Problem, path: str) -> None:
    stdout().print(f"{kind} {escape(problem.text(path))}", soft_wrap=True, emoji=False)


def _questions(report: TemplateReport) -> Table:
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


def _counts(report: TemplateReport) -> str:
    errors, warnings = len(report.errors), len(report.warnings)
    counts = f"{report.path}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    size = report.log10_tests
    return (
        counts
        if size is None or not report.questions
        else f"{counts}; 10^{size:.0f} distinct tests"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_scores(scores: RunScores, differing: list[str] | None, path: Path, as_json: bool) -> None:
    """Print the tallies of a run by scoring type and by question. ``differing`` are the samples
    that scores found in the folder score otherwise; None where there were no such scores."""
    head = scores.as_json()
    if as_json:
        print_json({**head, "disagreements": differing, "written": str(path)})
        return
    by_type = _tallies("scoring type", head["by_scoring_type"])
    print_records(by_type, False, title="By scoring type")
    print_records(_tallies("question", head["by_question"]), False, title="By question")
    for line in (*_summary(scores, differing), f"wrote {path}"):
        stdout().print(escape(line), soft_wrap=True)


def _tallies(name: str, groups: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: group,
            "samples": tally["total"],
            "strict": tally["correct"],
            "lenient": tally["lenient_correct"],
            "formatting failures": tally["formatting_failures"],
            "task failures": tally["task_failures"],
            "missing": tally["missing_responses"],
        }
        for group, tally in groups.items()
    ]


def _summary(scores: RunScores, differing: list[str] | None) -> list[str]:
    head = scores.as_json()["metadata"]
    lines = [
        f"{head['correct_answers']} of {head['total_questions']} right strictly "
        f"({head['accuracy_percentage']} %), {head['lenient_correct_answers']} leniently "
        f"({head['lenient_accuracy_percentage']} %)"
    ]
    lines += [f"warning: {warning}" for warning in scores.warnings]
    if differing == []:
        lines.append("the scores that were there agree on every sample")
    elif differing:
        more = f" and {len(differing) - _MOST_LISTED} more" if len(differing) > _MOST_LISTED else ""
        lines.append(
            f"the scores that were there, kept as scores.before.json, differ on {len(differing)}: "
            f"{', '.join(differing[:_MOST_LISTED])}{more}"
        )
    return lines


def print_run_report(report: RunReport, as_json: bool) -> None:
    """Print the accuracy of each model, and which answer formats cost most."""
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

"""The part of a report on strata that come from template files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from analysis.csv_text import table_csv
from analysis.report.part import (
    NONE,
    Block,
    Columns,
    Heading,
    Paragraph,
    Part,
    ReportTable,
    tabulate,
)
from analysis.report.wording import score_words
from analysis.stats.proportions import Rate
from analysis.templates.breakdown import APART, GOOD, POOR, FailureMode
from analysis.templates.breakdown_tables import TableSet
from analysis.templates.sample_size import Curve

FOLDER = "templates"  # of the tables, beside the page


def templates_part(tables: TableSet) -> Part:
    """The part with all tables on the answers to templated questions; their CSV files hold the
    curves too."""
    return Part(
        name="templated",
        title="Templated tasks",
        after="costs",
        body=tuple(_body(tables)),
        data={"templates": tables.as_json()},
        files={
            f"{FOLDER}/{name}.csv": table_csv(rows) for name, rows in tables.tables.items() if rows
        },
    )


def _body(tables: TableSet) -> Iterator[Block]:
    made = tables.breakdown
    yield Paragraph(
        "Strict is to the letter of the scoring type, and is the score elsewhere in this report. "
        "Lenient forgives how an answer is packed: what is wrong strictly and right leniently "
        "failed at format, what is wrong in both failed at the task. No answer: the model's own "
        "failure, which counts as wrong. Missing: without a verdict, left out. Nothing here is a "
        "registered test."
    )
    yield tabulate(
        "templates",
        "Right answers, points of 100, with 95 % intervals that count answers to one instance as "
        "related.",
        made.overall,
        _tallies(""),
    )
    if made.failure_modes:
        yield Heading("One task in several answer formats")
        yield Paragraph(
            "Questions whose sandboxes and answer keys are the same, asked for in other formats. "
            "Where one format succeeds, the task is not what fails. Weakness pattern, by the first "
            f"rule that holds: none where file and direct output both reach {100 * GOOD:.0f}; "
            f"both, or the task, where both stay below {100 * POOR:.0f}; the worse output where "
            f"they are {100 * APART:.0f} or more apart; else balanced. An asterisk: the 95 % "
            "interval of the difference holds zero."
        )
    for group in dict.fromkeys(mode.group for mode in made.failure_modes):
        yield _mode_table(group, [mode for mode in made.failure_modes if mode.group == group])
    yield Heading("By scoring type, by question")
    for name, title, rows, columns in (
        ("scoring_types", "Scoring types", made.scoring_types, _tallies("Scoring type")),
        ("questions", "Questions", made.questions, _tallies("Question")),
        ("rounds", "Rounds", made.rounds, _ROUNDS),
    ):
        table = tabulate(f"templates-{name}", _CAPTIONS[name], rows, columns)
        yield replace(table, folded=f"{title}: {len(rows)} rows")
    if tables.curves:
        yield Heading("How many samples")
        yield Paragraph(
            "By progressive sampling: the elbow is where the curve of interval width against "
            "samples lies farthest below its chord; it depends on how many samples there are. The "
            "other columns need no curve: the samples that give a 95 % interval of the width "
            "named, at the rate seen, and in brackets at the rate nearest 50 in its interval. The "
            "largest over models, waves and arms."
        )
        yield _need_table(tables.curves)
    yield Paragraph(
        f"The files in {FOLDER}/, beside this page, hold these tables as CSV, with the curves.",
        note=True,
    )


_CAPTIONS = {
    "scoring_types": "Right answers by scoring type, points of 100.",
    "questions": "Right answers by question, points of 100.",
    "rounds": "Inference requests an episode. Of equally frequent numbers the mode is the least.",
}
_WHO: Columns = {"Model": lambda row: "{2}, wave {0}, {1}".format(*row.subject)}
_ROUNDS: Columns = {
    **_WHO,
    "Question": "question",
    "#Average": lambda r: (
        f"{r.average:.2f}" + (f" ({r.interval[0]:.2f}–{r.interval[1]:.2f})" if r.interval else "")
    ),
    "#Max": "most",
    "#Min": "least",
    "#Mode": "mode",
}


def _tallies(label: str) -> Columns:
    """The columns of rows of the breakdown; ``label`` heads their names, "" of those of none."""
    return {
        **_WHO,
        **({label: "name"} if label else {}),
        "#Strict": lambda row: _share(row.strict),
        "#Lenient": lambda row: _share(row.lenient),
        "#Answers": "strict.answers",
        "#Failed at format": "formatting",
        "#Failed at task": "task",
        "#No answer": "unanswered",
        "#Missing": "strict.missing",
    }


def _mode_table(group: str, modes: Sequence[FailureMode]) -> ReportTable:
    def in_format(place: int) -> Callable[[FailureMode], object]:
        return lambda mode: _share(mode.formats[place][1])

    names = [name for name, _ in modes[0].formats]
    formats: Columns = {f"#{name}": in_format(place) for place, name in enumerate(names)}
    return tabulate(
        f"templates-formats-{group}",
        f"Questions {group}: right answers by format, points of 100. File and direct output are "
        "the averages of their formats.",
        modes,
        {
            **_WHO,
            **formats,
            "#File output": lambda mode: _share(mode.file),
            "#Direct output": lambda mode: _share(mode.direct),
            "#Overall": lambda mode: _share(mode.overall),
            "Weakness": lambda mode: (
                f"{mode.pattern}*"
                if mode.clear is False and mode.pattern.endswith("Output")
                else mode.pattern
            ),
        },
    )


def _need_table(curves: Sequence[Curve]) -> ReportTable:
    """The most samples that each question asks for, over all models that were asked it."""
    by_question: dict[str, list[Curve]] = {}
    for curve in curves:
        by_question.setdefault(curve.question, []).append(curve)
    widths: Columns = {
        f"#Width {100 * need.width:.4g}": place
        for place, need in enumerate(curves[0].needs, start=3)
    }
    return tabulate(
        "templates-samples",
        "Samples a question, widths in points of 100.",
        [_needs(question, asked) for question, asked in by_question.items()],
        {"Question": 0, "#Seen, at most": 1, "#Elbow": 2, **widths},
    )


def _needs(question: str, asked: Sequence[Curve]) -> tuple[Any, ...]:
    seen = max(curve.points[-1].samples for curve in asked)
    elbow = max((curve.elbow for curve in asked if curve.elbow is not None), default=NONE)
    needs = [
        f"{max(n.samples for n in needs)} ({max(n.samples_cautious for n in needs)})"
        for needs in zip(*(curve.needs for curve in asked), strict=True)
    ]
    return question, seen, elbow, *needs


def _share(rate: Rate) -> str:
    return NONE if rate.mean is None else score_words(rate.mean, rate.interval)

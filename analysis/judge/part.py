"""The part of a report on judges: as measured, errors by arm, drift, and gaps freed of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.csv_text import csv_files, inner_rows, without
from analysis.json_values import json_rows
from analysis.judge.columns import JudgeColumn, judge_departures
from analysis.judge.error_rates import ErrorsByArm
from analysis.plan.verdict import Verdict
from analysis.report.part import NONE, Block, Columns, Paragraph, Part, ReportTable, tabulate
from analysis.report.wording import gap_words, range_words, score_words
from analysis.stats.intervals import MeanEstimate, p_words, signed
from analysis.stats.proportions import Rate
from analysis.words import words_in
from registry.ledger.records import Plan

_WORDS = words_in("analysis.judge", "words.yaml")


def judges_part(
    plan: Plan,
    columns: Sequence[JudgeColumn],
    waves: Sequence[int],
    published: str = "",
    exploratory: Sequence[Verdict] = (),
) -> Part:
    """The part of a look at some waves; ``published`` is the day of the first release, and
    ``exploratory`` are the verdicts on the judges' scores."""
    data = json_rows(columns)
    return Part(
        name="judges",
        title="Judges",
        after="sensitivity",
        body=tuple(_body(columns)) if columns else (),
        data={"judges": data},
        files=csv_files(
            {
                "judges": [without(judge, "gaps", "drift") for judge in data],
                "judge_gaps": inner_rows(data, "gaps", "judge"),
                "judge_drift": inner_rows(data, "drift", "judge"),
            }
        ),
        deviations=tuple(judge_departures(plan, columns, waves, published)),
        exploratory=tuple(exploratory),
    )


_MEASURED: Columns = {
    "Judge": "judge",
    "Version": "version",
    "#Criteria": lambda c: "never measured" if c.criteria is None else c.criteria,
    "#Sensitivity": lambda c: _rate(c.sensitivity),
    "#Specificity": lambda c: _rate(c.specificity),
    "#Parsed": lambda c: _rate(c.parsed),
    "#Kappa": lambda c: NONE if c.kappa is None else f"{c.kappa:.2f}",
    "Column": lambda c: _state(c),
}
_ERRORS: Columns = {"Judge": 0, "Rate": 1, "#Public": 2, "#Private": 3, "#Criteria": 4, "#p": 5}
_DRIFT: Columns = {
    "Judge": lambda row: row[0].judge,
    "#At wave": lambda row: row[0].wave,
    "Answers of": lambda row: (
        row[1].model or f"all models, {row[0].answers} answers of wave {row[0].first}"
    ),
    "#Public": lambda row: _change(row[1].public),
    "#Private": lambda row: _change(row[1].private),
    "#Gap": lambda row: gap_words(row[1].control.gap),
    "#90 % interval": lambda row: (
        NONE if row[1].control.gap is None else range_words(row[1].control.interval90)
    ),
    "#p": lambda row: NONE if row[1].control.gap is None else p_words(row[1].control.p),
}
_GAPS: Columns = {
    "Model": lambda row: row[1].model,
    "#Wave": lambda row: row[1].wave,
    "Judge": lambda row: row[0],
    "#Exact": lambda row: gap_words(row[1].exact),
    "#By the judge": lambda row: signed(row[1].judged),
    "#Freed of errors": lambda row: gap_words(row[1].corrected),
    "#Its 95 % interval": lambda row: range_words(row[1].interval),
    "#By arm": lambda row: gap_words(row[1].by_arm),
    "#95 % interval by arm": lambda row: range_words(row[1].by_arm_interval),
}


def _body(columns: Sequence[JudgeColumn]) -> Iterator[Block]:
    yield Paragraph(_WORDS["introduction"])
    yield _table("judges", columns, _MEASURED)
    errors = [
        row for column in columns if column.errors for row in _error_rows(column, column.errors)
    ]
    yield _table("judge_errors", errors, _ERRORS)
    for column in columns:
        if column.errors and column.uncorrected:
            yield Paragraph(f"No gap of {column.judge} is corrected by arm: {column.uncorrected}.")
    drifts = [(drift, row) for column in columns for drift in column.drifts for row in drift.models]
    yield _table("judge_drift", drifts, _DRIFT)
    gaps = [(column.judge, gap) for column in columns for gap in column.gaps]
    yield _table("judge_gaps", gaps, _GAPS)


def _table(name: str, rows: Sequence[Any], columns: Columns) -> ReportTable:
    return tabulate(name, _WORDS[name], rows, columns)


def _state(column: JudgeColumn) -> str:
    state = f"withheld: {column.withheld}" if column.withheld else "shown"
    family = ", ".join(column.same_family)
    return f"{state}; of one family with {family}" if family else state


def _error_rows(column: JudgeColumn, errors: ErrorsByArm) -> Iterator[tuple[str, ...]]:
    for name, p in (("sensitivity", errors.p_sensitivity), ("specificity", errors.p_specificity)):
        public, private = getattr(errors.public, name), getattr(errors.private, name)
        answers = f"{public.answers} + {private.answers}"
        yield column.judge, name, _rate(public), _rate(private), answers, p_words(p)


def _rate(rate: Rate | None) -> str:
    return NONE if rate is None or rate.mean is None else score_words(rate.mean, rate.interval)


def _change(mean: MeanEstimate | None) -> str:
    if mean is None:
        return NONE
    return signed(mean.mean) + (f" ({range_words(mean.interval)})" if mean.interval else "")

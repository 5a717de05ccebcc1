"""The breakdown as plain tables: the rows of the CSV files, of ``report.json`` and of the page.

Shares, intervals and widths are fractions of 1, rounded to 6 decimals; unknown values are empty
(CSV) or null (JSON), never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from analysis.csv_text import table_csv
from analysis.stats.proportions import NOTHING, Rate
from analysis.templates.breakdown import (
    FORMAT_NAMES,
    Answers,
    Breakdown,
    FailureMode,
    Rounds,
    Tally,
    break_down,
)
from analysis.templates.sample_size import Curve, guide
from registry.files import write_whole

_DECIMALS = 6
_STUDY = ("wave", "arm")  # columns that run folders have no use for

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class TableSet:
    """All tables on the answers to templated questions. ``tables`` holds rows by table name."""

    breakdown: Breakdown
    curves: tuple[Curve, ...]
    tables: Mapping[str, tuple[Row, ...]]

    def as_json(self) -> dict[str, Any]:
        """The tables as plain JSON values."""
        return {name: [dict(row) for row in rows] for name, rows in self.tables.items()}


def make_tables(answers: Answers, seed: str, *, of_study: bool) -> TableSet:
    """All tables of some answers; ``seed`` is that of the subsets of ``samplesize.guide``.

    Tables ``of_study`` have the columns wave and arm.
    """
    breakdown, curves = break_down(answers), guide(answers, seed)
    facts = answers.facts
    tables = {
        "overall": [_tally_row(tally) for tally in breakdown.overall],
        "questions": [
            _tally_row(
                tally,
                question=tally.name,
                scoring_type=facts[tally.name].scoring_type,
                output=facts[tally.name].output,
                format=facts[tally.name].format,
            )
            for tally in breakdown.questions
        ],
        "scoring_types": [
            _tally_row(tally, scoring_type=tally.name) for tally in breakdown.scoring_types
        ],
        "rounds": [_rounds_row(rounds) for rounds in breakdown.rounds],
        "failure_modes": [_mode_row(mode) for mode in breakdown.failure_modes],
        "progressive": _curve_rows(curves),
        "sample_sizes": [_need_row(curve) for curve in curves],
    }
    return TableSet(
        breakdown,
        curves,
        MappingProxyType(
            {name: tuple(_finish(row, of_study) for row in rows) for name, rows in tables.items()}
        ),
    )


def write_tables(folder: Path, tables: TableSet) -> list[Path]:
    """Write each table that has rows as ``<name>.csv`` into the folder, each whole or not at
    all; a file of a table without rows is removed, so that no old one is taken for new."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, rows in tables.tables.items():
        path = folder / f"{name}.csv"
        if not rows:
            path.unlink(missing_ok=True)
            continue
        write_whole(path, table_csv(rows))
        written.append(path)
    return written


def _tally_row(tally: Tally, **named: str) -> dict[str, Any]:
    return {
        **tally.subject._asdict(),
        **named,
        "answers": tally.strict.answers,
        "missing": tally.strict.missing,
        "instances": tally.strict.instances,
        "right": tally.strict.right,
        **_rate_columns("accuracy", tally.strict),
        "lenient_answers": tally.lenient.answers,
        "lenient_right": tally.lenient.right,
        **_rate_columns("lenient_accuracy", tally.lenient),
        "formatting_failures": tally.formatting,
        "task_failures": tally.task,
        "unanswered": tally.unanswered,
        "undetermined": tally.undetermined,
    }


def _rounds_row(rounds: Rounds) -> dict[str, Any]:
    return {
        **rounds.subject._asdict(),
        "question": rounds.question,
        **_interval_columns("average", rounds.average, rounds.interval),
        "maximum": rounds.most,
        "minimum": rounds.least,
        "mode": rounds.mode,
        "answers": rounds.answers,
        "missing": rounds.missing,
    }


def _mode_row(mode: FailureMode) -> dict[str, Any]:
    row: dict[str, Any] = {**mode.subject._asdict(), "group": mode.group}
    formats = dict(mode.formats)
    for name in FORMAT_NAMES.values():
        rate = formats.get(name, NOTHING)
        slug = name.lower().replace(" + ", "_").replace(" ", "_")  # file_json
        row |= {f"{slug}_right": rate.right, f"{slug}_answers": rate.answers}
        row |= _rate_columns(slug, rate)
    return {
        **row,
        **_rate_columns("file", mode.file),
        **_rate_columns("direct", mode.direct),
        **_rate_columns("overall", mode.overall),
        **_interval_columns("gap", mode.gap, mode.gap_interval),
        "missing": mode.overall.missing,
        "weakness_pattern": mode.pattern,
        "gap_excludes_zero": mode.clear,
    }


def _curve_rows(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [
        {
            **curve.subject._asdict(),
            "question": curve.question,
            "samples": point.samples,
            "mean": point.mean,
            "mean_p05": point.low,
            "mean_p95": point.high,
            "interval_width": point.width,
            "elbow": point.samples == curve.elbow,
        }
        for curve in curves
        for point in curve.points
    ]


def _need_row(curve: Curve) -> dict[str, Any]:
    """A question, with a pair of columns for each width."""
    row: dict[str, Any] = {
        **curve.subject._asdict(),
        "question": curve.question,
        "samples_seen": curve.points[-1].samples,
        "width_seen": curve.points[-1].width,
        "elbow": curve.elbow,
    }
    for need in curve.needs:
        name = f"samples_for_width_{need.width:g}"
        row |= {name: need.samples, f"{name}_cautious": need.samples_cautious}
    return row


def _rate_columns(name: str, rate: Rate) -> dict[str, float | None]:
    return _interval_columns(name, rate.mean, rate.interval)


def _interval_columns(
    name: str, value: float | None, interval: tuple[float, float] | None
) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _finish(row: Mapping[str, Any], of_study: bool) -> Row:
    """Rounded, without the columns that are not asked for."""
    return MappingProxyType(
        {
            name: round(value, _DECIMALS) + 0.0 if isinstance(value, float) else value
            for name, value in row.items()
            if of_study or name not in _STUDY
        }
    )

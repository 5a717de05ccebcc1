"""``dosimeter template report``: run folders broken down, as CSV files and in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.picard import WIDTHS, Answers, TableSet, make_tables, write_tables
from registry.canonical import digest_value
from study.errors import StudyError
from study.picard.answers import answers_of_runs


@dataclass(frozen=True, slots=True)
class RunReport:
    """The tables of some run folders, the files that they were written to, and warnings."""

    tables: TableSet
    files: tuple[Path, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the tables with the paths of their files and the warnings."""
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

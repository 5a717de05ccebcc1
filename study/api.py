"""A study in Python, for notebooks: the functions of the command line, with DataFrames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.report.report import Report
from registry.ledger.records import ReportIssued
from registry.provenance import utc_now
from registry.result_row import columns_of
from study.errors import StudyError
from study.steps import pipeline
from study.steps.report.context import find_report
from study.steps.report.look import graded_rows
from study.steps.sweep.history import record_look
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

if TYPE_CHECKING:
    import pandas as pd


_SHARES = re.compile("estimate|upper|mean|interval_(low|high)|deciding_(bound|lower)")


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study's folder, opened. Each method reads the study anew, so that it sees what sweeps have
    added since."""

    study: Study

    def __repr__(self) -> str:
        return f"StudyView({str(self.study.folder)!r}: study {self.study.protocol.name})"

    def results(self) -> pd.DataFrame:
        """Return a row for each episode and grader of the waves that were begun, in the columns of
        docs/result-rows.md. It names instances and arms, so it needs the study's key and must not
        be published. It is a look, which the ledger records first. Raises RegistryError without
        the key, StudyError if the look cannot be recorded."""
        snapshot = take_snapshot(self.study)
        waves = list(snapshot.waves.values())
        record_look(snapshot, waves, "python: results()")
        return _frame(columns_of(list(graded_rows(snapshot, waves))))

    def looks(self) -> pd.DataFrame:
        """Return a row for each report in the ledger, oldest first: the last ``wave`` that it
        covers, its ``time`` (UTC), the ``report``'s digest, and its ``deviations``, which name the
        looks that were no report."""
        return _frame(
            [
                {
                    "wave": record.through_wave,
                    "time": entry.time,
                    "report": record.report,
                    "deviations": list(record.deviations),
                }
                for entry, record in self._issued()
            ]
        )

    def verdicts(self, wave: int | None = None) -> pd.DataFrame:
        """Return the verdict of each model by the report through a wave, or by the newest report,
        with gaps in points. Nothing is tested anew: a look at the data is a ``report``. Raises
        StudyError if there is no such report, or the study's folder has another file in its
        place."""
        return _frame([*map(_in_points, self._report_json(wave)["models"])])

    def public_results(self, wave: int | None = None) -> pd.DataFrame:
        """Return the mean score of each model on each arm and stratum, in points, as the report
        through a wave, or the newest report, publishes it. It needs no key and is no look. Raises
        StudyError as ``verdicts``."""
        return _frame([*map(_in_points, self._report_json(wave)["scores"])])

    def _report_json(self, wave: int | None) -> Mapping[str, Any]:
        issued = [record for _, record in self._issued() if wave in (None, record.through_wave)]
        if not issued:
            through = "" if wave is None else f" through wave {wave}"
            raise StudyError(f"{self.study.folder}: no report{through} yet: make it with report()")
        body = find_report(self.study.folder, issued[-1])
        if body is None:
            raise StudyError(
                f"{self.study.folder}: the report through wave {issued[-1].through_wave} is not in "
                "the folder as the ledger has it: make it again with report()"
            )
        return body

    def report(self, wave: int | None = None) -> tuple[Report, Path]:
        """Run the registered test on the closed waves up to ``wave``, or all; write the report and
        record it in the ledger. Return it with its HTML page. Raises StudyError, BrokenPromise."""
        return pipeline.report(self.study, wave)

    def status(self) -> pd.DataFrame:
        """Return a row for each step of the study: what is done, and what is owed."""
        return _frame(pipeline.status(self.study))

    def _issued(self) -> list[tuple[Any, ReportIssued]]:
        return [(entry, entry.record) for entry in self.study.ledger.find("report")]


def open_study(folder: str | Path) -> StudyView:
    """Open a study's folder. Raises StudyError, RegistryError."""
    return StudyView(pipeline.open_study(Path(folder)))


def analyze(table: str | Path, *, plan: str | Path | None = None, **options: Any) -> pd.DataFrame:
    """Run a study's analysis on results from elsewhere, a CSV or Parquet file, and return the
    verdict of each model. ``options`` are those of `dosimeter analyze`: ``allocation``,
    ``pre_exposure`` (names of models), ``grader``. The frame's ``attrs["deviations"]`` say what
    the table departs from. Raises AnalysisError and StudyError that name the file."""
    from analysis.report.report import report_json
    from study.extras.tables.external_table import analyze_table

    now = utc_now()
    made = analyze_table(Path(table), None if plan is None else Path(plan), now=now, **options)
    body = made if isinstance(made, dict) else report_json(made)
    frame = _frame([_in_points(row) for row in body["models"]])
    frame.attrs["deviations"] = list(body["deviations"])
    return frame


def _in_points(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a report with its shares in points, and its interval as two columns."""
    low, high = row.get("interval") or (None, None)
    values = {**row, "interval_low": low, "interval_high": high}
    return {
        name: 100 * value if _SHARES.fullmatch(name) and value is not None else value
        for name, value in values.items()
        if name != "interval"
    }


def _frame(data: Mapping[str, Any] | list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(data)

"""The report as files: the page, a summary, the JSON, every table as CSV, the figures as SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from analysis.calibration import RESAMPLED
from analysis.errors import AnalysisError
from analysis.files import write_whole
from analysis.picard import table_csv
from analysis.report.csv import tables_csv
from analysis.report.figures import (
    make_timeline,
    plot_arms,
    plot_calibration,
    plot_gaps,
    plot_monitoring,
    plot_time,
    standalone,
)
from analysis.report.html import render_html
from analysis.report.markdown import render_markdown
from analysis.report.report import Report, report_json

PAGE, DATA, SUMMARY = "report.html", "report.json", "report.md"
TABLES, FIGURES, TEMPLATES = "tables", "figures", "templates"  # folders beside the page
_ENDINGS = {TABLES: ".csv", FIGURES: ".svg", TEMPLATES: ".csv"}


def report_files(report: Report) -> dict[str, str]:
    """Every file of a report by its path below the report's folder, the page last. Nothing is
    written: what goes out can be looked through before it lies anywhere."""
    body = report_json(report)
    files = {f"{TABLES}/{name}": text for name, text in tables_csv(body).items()}
    if report.templates is not None:
        files |= {
            f"{TEMPLATES}/{name}.csv": table_csv(rows)
            for name, rows in report.templates.tables.items()
            if rows
        }
    files |= {f"{FIGURES}/{name}.svg": standalone(svg) for name, svg in _figures(report).items()}
    files[SUMMARY] = render_markdown(report)
    files[DATA] = json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files[PAGE] = render_html(report)
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> tuple[Path, Path]:
    """Write the files into the folder, each whole or not at all; tables and figures of an
    earlier report that are not among them are removed. The page and the JSON. Raises
    AnalysisError where a file cannot be written."""
    try:
        for part, ending in _ENDINGS.items():
            for old in (folder / part).glob(f"*{ending}"):
                if f"{part}/{old.name}" not in files:
                    old.unlink()
        # The JSON first: it marks the folder as a report's, even if this process is killed midway.
        for name, text in sorted(files.items(), key=lambda file: file[0] != DATA):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
    except OSError as error:
        raise AnalysisError(f"{folder}: cannot be written ({error.strerror})") from error
    return folder / PAGE, folder / DATA


def check_folder(folder: Path) -> None:
    """Raise AnalysisError for a folder that no report can go into: that cannot be made, or whose
    tables or figures are somebody else's, which a report would replace."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalysisError(f"{folder}: no folder can be made ({error.strerror})") from error
    there = [part for part in _ENDINGS if (folder / part).exists()]
    if there and not (folder / DATA).exists():
        raise AnalysisError(
            f"{folder}: has {there[0]}/ of something else, since there is no {DATA}: give a folder "
            "that is new or holds a report"
        )


def write_report(folder: Path, report: Report) -> tuple[Path, Path]:
    """Write a report into the folder, as ``write_files``; the page and the JSON."""
    return write_files(folder, report_files(report))


def _figures(report: Report) -> dict[str, str]:
    """The figures of a desktop's width."""
    monitoring = report.monitoring
    figures = {"scores": plot_arms(report.means)}
    if any(v.estimate is not None for v in report.verdicts):
        figures["gaps"] = plot_gaps(report.verdicts, report.plan.margin)
        figures["time"] = plot_time(make_timeline(report), report.plan.margin)
    if monitoring is not None and monitoring.looks:
        figures["monitoring"] = plot_monitoring(monitoring)
    for calibration in report.calibrations:
        name = "calibration" if calibration.how == RESAMPLED else f"calibration-{calibration.how}"
        figures[name] = plot_calibration(calibration.found)
    return figures

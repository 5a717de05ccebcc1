"""The report as files: the page, a summary, the JSON, every table as CSV, the figures as SVG."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from analysis.csv_text import Body, Row, flat_csv, inner_rows, without
from analysis.errors import AnalysisError
from analysis.report.figures.style import standalone
from analysis.report.html import figures_of, render_html
from analysis.report.markdown import render_markdown
from analysis.report.report import Report, report_json
from registry.files import write_whole

PAGE, DATA, SUMMARY = "report.html", "report.json", "report.md"
CHECKPOINT = "checkpoint.txt"  # of the ledger; `verify` reads it
TABLES, FIGURES, TEMPLATES = "tables", "figures", "templates"  # folders beside the page
_ENDINGS = {TABLES: ".csv", FIGURES: ".svg", TEMPLATES: ".csv"}


def report_files(report: Report) -> dict[str, str]:
    """Every file of a report by its path below the report's folder, the page last. Nothing is
    written, so that the files can be inspected first."""
    body = report_json(report)
    files = {f"{TABLES}/{name}": text for name, text in tables_csv(body).items()}
    for part in report.parts:
        files |= part.files
    figures = figures_of(report)
    files |= {f"{FIGURES}/{name}.svg": standalone(svg) for name, svg in figures.items()}
    if report.checkpoint is not None:
        files[CHECKPOINT] = report.checkpoint.note
    files[SUMMARY] = render_markdown(report)
    files[DATA] = json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files[PAGE] = render_html(report, figures)
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
    """Raise AnalysisError for a folder that no report can go into: one that cannot be made, or
    that has other tables or figures, which a report would replace."""
    fresh = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in fresh:
            path.rmdir()
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


# -- tables as CSV

# Tables that are lists of rows in the body, under the name of their file.
_LISTS = (
    *("exploratory", "before_publication", "scores", "dimensions", "episodes", "causes"),
    *("effort", "costs", "controls", "sensitivity", "served", "burned", "runs"),
)


def tables_csv(body: Body) -> dict[str, str]:
    """The tables of a body as ``report_json`` makes it, as CSV by file name; none without rows, and
    none of parts.

    Pairs are two columns, ``…_low`` and ``…_high``; unknown values are empty.
    """
    looks, monitoring = body["looks"], body["monitoring"]
    tested = [model for look in looks for model in look["models"]]
    tables = {name: body[name] for name in _LISTS} | {
        "verdicts": body["models"],
        "models": body["facts"],
        "looks": [_look_row(look) for look in looks],
        "tests": [
            {"look": look["number"], **without(model, "outcomes", "strata", "missing")}
            for look in looks
            for model in look["models"]
        ],
        "outcomes": inner_rows(tested, "outcomes", "wave", "model"),
        "strata": inner_rows(tested, "strata", "wave", "model"),
        "missing": [_missing_row(model) for model in tested if _lost(model)],
        "tipping": list(_tipping_rows(tested)),
        "monitoring": monitoring["looks"] if monitoring else [],
        "deviations": [{"deviation": line} for line in body["deviations"]],
        "remarks": [{"remark": line} for line in body["remarks"]],
        "changes": list(_changes(body)),
    }
    return {f"{name}.csv": flat_csv(rows) for name, rows in tables.items() if rows}


def _lost(model: Body) -> bool:
    missing = model["missing"]
    return bool(missing["public"] or missing["private"])


def _missing_row(model: Body) -> Row:
    missing = dict(model["missing"])
    tipping = missing.pop("tipping")
    nothing = {"decision": None, "share": None, "runs": None}
    rest = without(tipping, "curve") if tipping else nothing
    return {"wave": model["wave"], "model": model["model"], **missing, "tipping": rest}


def _tipping_rows(tested: Iterable[Body]) -> Iterator[Row]:
    for model in tested:
        tipping = model["missing"]["tipping"]
        for step in tipping["curve"] if tipping else ():
            decision = tipping["decision"]
            yield {"wave": model["wave"], "model": model["model"], "decision": decision, **step}


def _look_row(look: Body) -> Row:
    excluded = [f"{row['model']}: {row['why']}" for row in look["excluded"]]
    return {**without(look, "models"), "excluded": excluded}


def _changes(body: Body) -> Iterator[Row]:
    changes = body["changes"]
    if changes is None:
        return
    for turned in changes["turned"]:
        yield {"change": "verdict", **turned}
    for model, wave, word in changes["added"]:
        yield {"change": "new", "model": model, "wave": wave, "now": word}
    for kind, lines in (("deviation", changes["deviations"]), ("settled", changes["settled"])):
        for line in lines:
            yield {"change": kind, "note": line}

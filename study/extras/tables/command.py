"""Tables of results from elsewhere: ``dosimeter analyze`` and ``dosimeter import``."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.plan.history import ALLOCATIONS
from analysis.report.report import report_json
from analysis.report.write import DATA, check_folder, write_files, write_report
from registry.provenance import utc_now
from registry.result_row import Arm
from study.extras.tables.external_table import analyze_table
from study.extras.tables.harness_logs import HARNESSES, import_logs
from study.extras.templates.import_results import import_parametr, import_picard, write_rows
from study.extras.templates.run_folder import named_folders
from study.options import PATH, json_option
from study.printing import print_json, print_line, print_records
from study.steps.report.command import print_verdicts

if TYPE_CHECKING:
    from study.extras.templates.import_results import Imported

_arm = click.option(
    "--arm",
    type=click.Choice(["public", "private"]),
    required=True,
    help="The arm of the seeds in these folders, which the folders do not name.",
)
_look = click.option("--look", type=click.IntRange(0), default=0, show_default=True)
_out = click.option(
    "--out",
    type=PATH,
    required=True,
    help="A .parquet file for the rows; they are added to those that it has.",
)


@click.group(name="import")
def import_() -> None:
    """Make a table for `dosimeter analyze` from run folders of other programs.

    \b
    Example:
      dosimeter import parametr results/public-run --arm public --out rows.parquet
      dosimeter import parametr run-2 --arm private --out rows.parquet
      dosimeter analyze rows.parquet
    """


@import_.command()
@click.argument("folders", nargs=-1, required=True, metavar="[MODEL=]DIR…")
@_arm
@_look
@_out
@click.option("--remap", multiple=True, metavar="OLD=NEW", help="Paths that have moved.")
@json_option
def picard(
    folders: tuple[str, ...], arm: str, look: int, out: Path, remap: tuple[str, ...], as_json: bool
) -> None:
    """Score PICARD run folders strictly, a row for each sample.

    \b
    Example:
      dosimeter import picard llama=run1 nova=run2 --arm public --out rows.parquet
    """
    named = named_folders(folders)
    imported = import_picard(named, Arm(arm), look, datetime.now(UTC), remap)
    _write(imported, out, as_json)


@import_.command(short_help="Read PARAMETR-Bench result folders into a table.")
@click.argument("folders", nargs=-1, required=True, type=PATH)
@_arm
@_look
@_out
@json_option
def parametr(folders: tuple[Path, ...], arm: str, look: int, out: Path, as_json: bool) -> None:
    """Read PARAMETR-Bench result folders, a row for each task, seed and judge.

    Prints each file's overall score as the original computes it, with the original's interval and
    one that knows that the criteria of a seed go together.

    \b
    Example:
      dosimeter import parametr run-2 --arm private --out rows.parquet
    """
    _write(import_parametr(folders, Arm(arm), look), out, as_json)


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="[STRATUM=]FILE|DIR…")
@_arm
@_out
@json_option
@click.pass_context
def _logs(
    context: click.Context, places: tuple[str, ...], arm: str, out: Path, as_json: bool
) -> None:
    """Read logs of this harness into a table, a row for each sample, run and score.

    Scores are taken as they are, from 0 to 1; samples that failed are missing, and no zeros. With
    several scores, choose one by `analyze --grader`. The stratum is the task; where the arms are
    two tasks, name one for both.

    \b
    Example:
      dosimeter import inspect sums=logs/open --arm public --out rows.parquet
      dosimeter import inspect sums=logs/kept --arm private --out rows.parquet
    """
    _write(import_logs(str(context.info_name), places, Arm(arm)), out, as_json)


for _name, _harness in HARNESSES.items():
    _of_harness = copy.copy(_logs)
    _of_harness.help = str(_logs.help).replace("import inspect", f"import {_name}")
    _of_harness.short_help = f"Read logs of {_harness} into a table."
    import_.add_command(_of_harness, _name)


def _write(imported: Imported, out: Path, as_json: bool) -> None:
    total = write_rows(out, imported.rows)
    count, overall = len(imported.rows), [asdict(score) for score in imported.overall]
    if as_json:
        summary = {"rows": count, "rows_in_file": total, "file": str(out), "overall": overall}
        print_json(summary | {"warnings": list(imported.warnings)})
        return
    if overall:
        print_records([_overall_row(score) for score in overall], title="Overall")
    for warning in imported.warnings:
        click.echo(f"warning: {warning}", err=True)
    print_line(f"{count} rows into {out}, which has {total}")


def _overall_row(score: dict[str, Any]) -> dict[str, Any]:
    def points(pair: tuple[float, float] | None) -> str:
        return "" if pair is None else f"{100 * pair[0]:.1f}…{100 * pair[1]:.1f}"

    return {
        "model": score["model"],
        "judge": score["grader"],
        "score": f"{100 * score['score']:.1f}",
        **{
            name.removeprefix("score_").upper(): "" if mean is None else f"{100 * mean:.1f}"
            for name, mean in score["dimensions"].items()
        },
        "as printed (95 %)": points(score["interval"]),
        "clustered (95 %)": points(score["clustered"]),
        "task runs": score["seeds"],
    }


@click.command()
@click.argument("table", type=PATH)
@click.option("--plan", "plan", type=PATH, help="A plan's file. Default: the preset standard-v1.")
@click.option(
    "--pre-exposure",
    multiple=True,
    metavar="MODEL",
    help="A model that was released before the publication: a negative control, and what scores "
    "are adjusted by. More than once for more.",
)
@click.option(
    "--allocation",
    type=click.Choice(ALLOCATIONS),
    metavar="RULE",
    show_default="that of the table or plan",
    help="How instances came into their arms, if neither table nor plan says it: "
    f"{', '.join(ALLOCATIONS)}.",
)
@click.option(
    "--grader", show_default="the only one", help="The grader to test, if the table has several."
)
@click.option("--out", show_default="no files", type=PATH, help="A folder for the report's files.")
@json_option
def analyze(
    table: Path, plan: Path | None, out: Path | None, as_json: bool, **options: Any
) -> None:
    """Run a study's analysis on results from elsewhere: a CSV or Parquet file.

    The columns stand in docs/result-rows.md; at the least model, arm, stratum, instance and score.
    How instances were allotted is stated by --allocation, a column of that name, or the plan.

    \b
    Examples:
      dosimeter analyze results.csv --allocation random
      dosimeter analyze results.csv --pre-exposure older-model --json
      dosimeter analyze results.parquet --plan plan.yaml --out report
    """
    if out is not None:
        check_folder(out)  # before a large table is analysed
    report = analyze_table(table, plan, now=utc_now(), **options)
    body, page = report if isinstance(report, dict) else report_json(report), None
    if out is not None and isinstance(report, dict):
        text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        page = write_files(out, {DATA: text})[1]  # there are no pages
    elif out is not None and not isinstance(report, dict):
        page = write_report(out, report)[0]
    print_verdicts(body, page, as_json)

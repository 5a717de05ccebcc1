"""Tables of results from elsewhere: ``dosimeter analyze`` and ``dosimeter import``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from analysis.plan.history import ALLOCATIONS
from analysis.report.report import report_json
from analysis.report.write import DATA, check_folder, write_files, write_report
from registry.provenance import utc_now
from registry.result_row import Arm
from study.extras.tables.external_table import analyze_table
from study.extras.tables.harness_logs import KINDS, import_logs
from study.extras.templates.import_results import (
    Imported,
    import_parametr,
    import_picard,
    write_rows,
)
from study.extras.templates.run_folder import named_folders
from study.options import PATH, json_option
from study.printing import print_json, print_line, print_records, progress_watch
from study.steps.report.command import print_verdicts
from study.steps.sweep.sweep import SweepRequest
from study.workspace.address import open_study

FOLDERS = ("picard", "parametr")


@click.command(name="import")
@click.argument("kind", type=click.Choice([*FOLDERS, *KINDS]), metavar="KIND")
@click.argument("places", nargs=-1, required=True, metavar="[NAME=]FILE|DIR…")
@click.option(
    "--arm",
    type=click.Choice(["public", "private"]),
    show_default="none",
    help="The arm of the instances in these files, which the files do not name.",
)
@click.option(
    "--out",
    type=PATH,
    show_default="none",
    help="A .parquet file for the rows; they are added to those that it has.",
)
@click.option(
    "--look", type=click.IntRange(0), default=0, help="Number of the round: of picard and parametr."
)
@click.option("--remap", multiple=True, metavar="OLD=NEW", help="Paths that moved, of picard.")
@click.option(
    "--wave",
    type=click.IntRange(0),
    show_default="none",
    help="Instead of a table: the logs of a wave that `export tasks` has written.",
)
@click.option("--allow-dirty", is_flag=True, help="With --wave: as for `dosimeter sweep`.")
@click.option(
    "--study",
    "place",
    default=".",
    help="With --wave: the study's folder, or the address of its store.",
)
@json_option
def import_(kind: str, places: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Take results of other programs: into a table for `dosimeter analyze`, or into a study.

    \b
    KIND is one of
      picard    run folders of PICARD, scored strictly; NAME is the model
      parametr  result folders of PARAMETR-Bench, with their overall scores
      inspect   logs of Inspect
      lm-eval   samples of lm-evaluation-harness (--log_samples)
      eee       instances of Every Eval Ever
      harbor    trials of Harbor
      jsonl     lines with id, and model, task, score or answer

    Of the last five, scores are taken as they are, from 0 to 1, but answers to a release that
    Inspect ran from the Hub are graded; what failed is missing. With
    several scores, choose one by `analyze --grader`. NAME is the stratum, by default the task.

    With --wave the logs become a wave of a registered study. NAME is the model if the log has
    another name for it. Answers are graded anew; a score is taken where a log has no answer.

    \b
    Examples:
      dosimeter import picard llama=run1 nova=run2 --arm public --out rows.parquet
      dosimeter import inspect sums=logs/open --arm public --out rows.parquet
      dosimeter import inspect nova=logs --wave 1
    """
    if options["wave"] is not None:
        if options["arm"] or options["out"]:
            raise click.UsageError("--wave goes without --arm and --out: the study knows the arms")
        _import_wave(kind, places, as_json, options)
        return
    arm, out, look = options["arm"], options["out"], options["look"]
    if not (arm and out):
        raise click.UsageError("give --arm and --out, or --wave of a study")
    if (look and kind not in FOLDERS) or (options["remap"] and kind != "picard"):
        raise click.UsageError("--look goes with picard and parametr, --remap with picard")
    if kind == "picard":
        named = named_folders(places)
        made = import_picard(named, Arm(arm), look, datetime.now(UTC), options["remap"])
    elif kind == "parametr":
        made = import_parametr([Path(place) for place in places], Arm(arm), look)
    else:
        made = import_logs(kind, places, Arm(arm))
    _write(made, out, as_json)


def _import_wave(
    kind: str, places: tuple[str, ...], as_json: bool, options: Mapping[str, Any]
) -> None:
    from study.extras.tables.elsewhere import import_wave

    if kind in FOLDERS:
        raise click.UsageError(f"--wave takes logs of {', '.join(KINDS)}")
    wave = options["wave"]
    request = SweepRequest(wave, allow_dirty=options["allow_dirty"])
    with progress_watch(f"wave {wave}") as watch:
        study = open_study(options["place"])
        closed, warnings = import_wave(study, request, kind, places, utc_now, watch)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(asdict(closed))
        return
    for ran in closed.elsewhere:
        print_line(f"{ran.words}: {ran.answers} answers")
    print_line(f"wave {wave} is closed: {closed.finished} scored, {closed.missing} missing")


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

    A row is a run of a model on an instance, with the columns model, arm (public or private),
    stratum (as task/difficulty), instance and score (0 to 1; empty if the run was lost). Others
    that matter are unit, pair, look, replicate, status, grader, item_date, cutoff, released, date
    and burned (docs/result-rows.md). How instances were allotted is stated by --allocation, a
    column of that name, or the plan.

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

"""Tables of results from elsewhere: ``dosimeter analyze`` and ``dosimeter import``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study.cli.options import json_option

if TYPE_CHECKING:
    from study.picard import Imported

_arm = click.option(
    "--arm",
    type=click.Choice(["public", "private"]),
    required=True,
    help="The arm of the seeds in these folders, which the folders do not name.",
)
_look = click.option("--look", type=click.IntRange(0), default=0, show_default=True)
_out = click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="A .parquet file for the rows."
)
_append = click.option("--append", is_flag=True, help="Add to the rows of an existing file.")


@click.group(name="import")
def import_() -> None:
    """Make a table for `dosimeter analyze` from run folders of other programs.

    \b
    Example:
      dosimeter import parametr results/public-run --arm public --out rows.parquet
      dosimeter import parametr results/secret-run --arm private --out rows.parquet --append
      dosimeter analyze rows.parquet
    """


@import_.command()
@click.argument("folders", nargs=-1, required=True, metavar="[MODEL=]DIR…")
@_arm
@_look
@_out
@_append
@click.option("--remap", multiple=True, metavar="OLD=NEW", help="Paths that have moved.")
@json_option
def picard(
    folders: tuple[str, ...],
    arm: str,
    look: int,
    out: Path,
    append: bool,
    remap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Score PICARD run folders strictly, a row for each sample.

    \b
    Example:
      dosimeter import picard llama=run1 nova=run2 --arm public --out rows.parquet
    """
    from datetime import UTC, datetime

    from registry.result_row import Arm
    from study.picard import import_picard, named_folders

    named = named_folders(folders)
    found = import_picard(named, Arm(arm), look, datetime.now(UTC), remap)
    _write(found, out, append, as_json)


@import_.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@_arm
@_look
@_out
@_append
@json_option
def parametr(
    folders: tuple[Path, ...], arm: str, look: int, out: Path, append: bool, as_json: bool
) -> None:
    """Read PARAMETR-Bench result folders, a row for each task, seed and judge.

    Prints each file's overall score as the original computes it, with the original's interval and
    one that knows that the criteria of a seed go together.

    \b
    Example:
      dosimeter import parametr results/secret-run --arm private --out rows.parquet --append
    """
    from registry.result_row import Arm
    from study.picard import import_parametr

    _write(import_parametr(folders, Arm(arm), look), out, append, as_json)


def _write(imported: Imported, out: Path, append: bool, as_json: bool) -> None:
    from study.cli.output import print_json, print_records, stdout
    from study.picard import write_rows

    total = write_rows(out, imported.rows, append)
    if as_json:
        overall: list[dict[str, Any]] = [asdict(each) for each in imported.overall]
        print_json(
            {
                "rows": len(imported.rows),
                "rows_in_file": total,
                "file": str(out),
                "overall": overall,
                "warnings": list(imported.warnings),
            }
        )
        return
    if imported.overall:
        print_records([_shown(asdict(each)) for each in imported.overall], False, title="Overall")
    for warning in imported.warnings:
        click.echo(f"warning: {warning}", err=True)
    stdout().print(f"{len(imported.rows)} rows into {out}, which has {total}", soft_wrap=True)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    def points(pair: tuple[float, float] | None) -> str:
        return "" if pair is None else f"{100 * pair[0]:.1f}…{100 * pair[1]:.1f}"

    return {
        "model": row["model"],
        "judge": row["grader"],
        "score": f"{100 * row['score']:.1f}",
        "as printed (95 %)": points(row["interval"]),
        "clustered (95 %)": points(row["clustered"]),
        "task runs": row["seeds"],
    }


_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("table", type=_FILE)
@click.option("--plan", "plan", type=_FILE, help="A plan's file. Default: the preset standard-v1.")
@click.option(
    "--pre-exposure",
    multiple=True,
    metavar="MODEL",
    help="A model that was released before the publication: a negative control, and what scores "
    "are adjusted by. More than once for more.",
)
@click.option("--grader", help="The grader to test, if the table has several.")
@click.option("--out", type=_FILE, help="A folder for the report's files.")
@json_option
def analyze(
    table: Path,
    plan: Path | None,
    pre_exposure: tuple[str, ...],
    grader: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run a study's analysis on results from elsewhere: a CSV or Parquet file.

    The columns stand in docs/result-rows.md; at the least model, arm, stratum, instance, score.

    \b
    Examples:
      dosimeter analyze results.csv
      dosimeter analyze results.csv --pre-exposure older-model --json
      dosimeter analyze results.parquet --plan plan.yaml --out report
    """
    from analysis.report import check_folder, write_report
    from registry.provenance import utc_now
    from study.cli.output import print_verdicts
    from study.reporting import analyze_table

    if out is not None:
        check_folder(out)  # before a large table is analysed
    report = analyze_table(table, plan, pre_exposure=pre_exposure, grader=grader, now=utc_now())
    page = write_report(out, report)[0] if out is not None else None
    print_verdicts(report, page, as_json)

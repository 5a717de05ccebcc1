"""``dosimeter analyze``: the analysis on any table."""

from __future__ import annotations

from pathlib import Path

import click

from study.cli.options import json_option

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
@click.option("--grader", help="Whose rows are tested, where the table has several graders.")
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
    from registry.clock import utc_now
    from study.cli.output import print_verdicts
    from study.reporting import analyze_table

    if out is not None:
        check_folder(out)  # before a large table is analysed
    report = analyze_table(table, plan, pre_exposure=pre_exposure, grader=grader, now=utc_now())
    page = write_report(out, report)[0] if out is not None else None
    print_verdicts(report, page, as_json)

"""The commands ``dosimeter leak``."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from registry.provenance import utc_now
from study.options import PATH, json_option, study_option
from study.printing import print_line, print_records, print_step, progress_watch
from study.steps.sweep.exposure_ledger import declare_leak
from study.workspace.study import Study


@click.group()
def leak() -> None:
    """Leaks of the private arm: look for one, declare one.

    \b
    Examples:
      dosimeter leak scan ../website ../repository
      dosimeter leak declare --tranche 0 --reason "a transcript was put online"
    """


@leak.command(short_help="Declare that private seeds have leaked.")
@study_option
@click.option(
    "--tranche", required=True, type=click.IntRange(0), help="That leaked; 0 is the panel."
)
@click.option("--reason", required=True, help="In words, for readers: it is public.")
@click.option(
    "--since", metavar="DATE", help="The first day of the leak, today or before. Default: today."
)
@json_option
def declare(study: Study, tranche: int, reason: str, since: str | None, as_json: bool) -> None:
    """Declare that private seeds have leaked: their tranche is burned for every model after it.

    \b
    Example:
      dosimeter leak declare --tranche 0 --since 2027-03-01 --reason "a transcript was put online"
    """
    now = utc_now()
    try:
        day = date.fromisoformat(since or now[:10]).isoformat()
    except ValueError:
        raise click.BadParameter(f"{since!r}: a date is 2027-03-01", param_hint="--since") from None
    record, fresh = declare_leak(study, tranche, day, reason, now)
    summary = f"tranche {record.tranche} is burned for everybody from {record.since} on"
    print_step(record, as_json, summary, fresh)


@leak.command(short_help="Search files for private seeds, and what follows from them.")
@study_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@json_option
@click.pass_context
def scan(context: click.Context, study: Study, paths: tuple[Path, ...], as_json: bool) -> None:
    """Search files and folders for all that follows from a private seed, and for the study's keys.

    It reads what a release may hold: text in UTF-8, PNG images, SQLite databases and a release's
    Parquet files. It prints file, kind and the commitment's place in the draw, never what it found.
    What it does not read is listed too; links are not followed. Exit code 1 if anything was found,
    or not read.

    \b
    Examples:
      dosimeter leak scan ~/website ~/repository
      dosimeter leak scan --json logs | jq -r '.[].file'
    """
    from study.steps.publish.release import scan_for_leaks

    with progress_watch("reading") as watch:
        leaks = scan_for_leaks(study, paths, watch)
    found = sum(not each.kind.startswith("not read") for each in leaks)
    rows = [{"file": each.file, "kind": each.kind, "commitment": each.leaf} for each in leaks]
    if rows or as_json:
        print_records(rows, as_json, title="Leaks")
    if not as_json:
        unread = f"; {len(leaks) - found} not read" if len(leaks) > found else ""
        print_line(f"{found or 'no'} leak{'' if found == 1 else 's'} found{unread}")
    if leaks:
        context.exit(1)

"""The command ``dosimeter reveal``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from registry.provenance import utc_now
from study.options import PATH, folder_option, json_option
from study.printing import Exit, print_json, print_line, print_step, progress_watch
from study.workspace.study import Study


@click.command()
@folder_option
@click.argument("unit", required=False)
@click.option("--tranche", show_default="none", type=click.IntRange(0), help="0 is the panel.")
@click.option("--all", "every", is_flag=True, help="The whole draw, when the study is over.")
@click.option(
    "--reason",
    default="",
    show_default="none",
    help="Reveal seeds that a wave still runs on. Public, in words.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--check",
    metavar="FILE",
    type=PATH,
    show_default="none",
    help="Check the file of a reveal and make every instance again, without a key; exits with 3 if "
    "something does not hold.",
)
@json_option
def reveal(
    study: Study, unit: str | None, tranche: int | None, check: Path | None, **asked: Any
) -> None:
    """Publish the seeds and nonces of both arms, so that anyone can check the draw; or the files
    of a sealed UNIT alone, without any seed.

    It cannot be undone: the seeds are burned for every model of later waves, and a unit excludes
    nothing any more. They go into the store, and into a file beside study.yaml (docs/formats.md).

    \b
    Examples:
      dosimeter reveal --tranche 0
      dosimeter reveal --all --yes
      dosimeter reveal compute_average_ledger/easy
      dosimeter reveal --check reveal-study.json
    """
    from study.extras.reveal import reveal as reveals

    if [asked["every"], *(each is not None for each in (unit, tranche, check))].count(True) != 1:
        raise click.UsageError("give one of UNIT, --tranche, --all and --check")
    if check is not None:
        _check(study, check, asked["as_json"])
    alone = None if unit is None else reveals.unit_to_reveal(study, unit)
    tranches = reveals.tranches_to_reveal(study, alone.tranche if alone else tranche)
    reveals.check_revealable(study, tranches, asked["reason"])
    which = "all seeds" if tranche is None else f"the seeds of tranche {tranche}"
    which = which if unit is None else f"the files of unit {unit}"
    if not asked["yes"]:
        click.confirm(f"Make {which} public? This cannot be undone.", abort=True, err=True)
    record, path = reveals.reveal(study, tranches, asked["reason"], utc_now, alone)
    print_step(record, asked["as_json"], f"{which} are public: {path}", True)


def _check(study: Study, path: Path, as_json: bool) -> None:
    from study.extras.reveal.reveal import check_revealed

    with progress_watch("checking") as watch:
        count, problems = check_revealed(study, path, watch)
    if as_json:
        print_json({"instances": count, "problems": problems})
    else:
        for problem in problems:
            print_line(f"{path}: {problem}", "broken", "bold red")
        print_line(f"{'broken' if problems else 'all holds'}; {count} instances made again")
    sys.exit(Exit.BROKEN if problems else Exit.DONE)

"""The command ``dosimeter leak``: what is known to have got out of the private arm."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from study.options import json_option, study_option


@click.command()
@study_option
@click.option("--tranche", type=click.IntRange(0), help="That leaked; 0 is the panel.")
@click.option("--reason", required=True, help="In words, for readers: it is public.")
@click.option(
    "--since",
    metavar="DATE",
    help="The day from whose beginning on, today or before; today where left out.",
)
@click.option(
    "--named",
    type=click.Path(path_type=Path),
    help="A file of instance ids or seeds known to have leaked, one a line: the ledger gets their "
    "commitments only.",
)
@json_option
def leak(
    folder: Path,
    tranche: int | None,
    reason: str,
    since: str | None,
    named: Path | None,
    as_json: bool,
) -> None:
    """Declare that private seeds have leaked: their tranche is burned for every model after it.

    \b
    Example:
      dosimeter leak --tranche 0 --since 2027-03-01 --reason "a transcript was put online"
    """
    from registry.clock import utc_now
    from study import pipeline
    from study.burning import declare_leak
    from study.console import print_step

    now = utc_now()
    try:
        day = date.fromisoformat(since or now[:10]).isoformat()
    except ValueError:
        raise click.BadParameter(f"{since!r}: a date is 2027-03-01", param_hint="--since") from None
    record, fresh = declare_leak(pipeline.open_study(folder), tranche, day, reason, named, now)
    says = f"tranche {record.tranche} is burned for everybody from {record.since} on"
    print_step(record, as_json, says, fresh)

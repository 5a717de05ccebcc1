"""The commands ``dosimeter draw`` and ``dosimeter reveal``: the seeds of a study, at its begin and
at its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.provenance import utc_now
from study import pipeline
from study.printing import (
    PATH,
    Exit,
    folder_option,
    json_option,
    print_json,
    print_line,
    print_step,
    progress_watch,
)

if TYPE_CHECKING:
    from study.workspace.study import Study

underpowered_option = click.option(
    "--underpowered",
    metavar="REASON",
    default="",
    show_default=False,
    help="Go on with a plan that cannot be expected to answer. The ledger records the reason and "
    "the report shows it. Default: such a plan is refused.",
)

unproved_option = click.option(
    "--unproved",
    metavar="REASON",
    default="",
    show_default=False,
    help="Go on with template questions in which `dosimeter template check` finds an error. The "
    "ledger records the reason and the report shows it. Default: such questions are refused.",
)


@click.command()
@folder_option
@click.option(
    "--beacon",
    metavar="drand:ROUND",
    default="",
    show_default="a secret of the study's own",
    help="A coming round of drand's quicknet, a public randomness beacon: its value allots the "
    "seeds to the arms, so that nobody can choose them.",
)
@click.option(
    "--relay",
    "relays",
    metavar="URL|FILE",
    multiple=True,
    show_default="drand's own",
    help="Where the round's value is asked for: a relay, or a file that holds its reply; more than "
    "once for more.",
)
@click.option(
    "--again",
    metavar="REASON",
    default="",
    show_default="the first draw",
    help="Draw anew, before the plan is registered. The ledger keeps both draws, and the reason.",
)
@underpowered_option
@unproved_option
@json_option
def draw(
    study: Study,
    beacon: str,
    relays: tuple[str, ...],
    again: str,
    underpowered: str,
    unproved: str,
    as_json: bool,
) -> None:
    """Draw seeds at random, seal them, announce them, and allot them to the arms.

    The plan is simulated first: one that finds its target gap in a model with a probability below
    80 % is refused, and so are template questions that are not proved, and what a later step would
    refuse.

    With --beacon the draw is announced before the round's value exists, and exits with 1; run the
    command again once the round is public.

    \b
    Examples:
      dosimeter draw --study my-study
      dosimeter draw --beacon drand:34567890
    """
    from study.steps.register.draw import DrawRequest

    request = DrawRequest(beacon, again=again)
    if relays:
        request = DrawRequest(beacon, relays, again)
    with progress_watch("drawing") as watch:
        sealed, fresh = pipeline.draw(study, watch, underpowered, request, unproved)
    if fresh:
        show_readiness(study)
    print_step(sealed, as_json, pipeline.describe_draw(sealed), fresh)


def show_readiness(study: Study) -> None:
    """Print the power of the plan, and what later steps will need, to stderr."""
    from study.extras.power.target_power import describe_power
    from study.steps.register.gate import find_warnings

    click.echo(describe_power(study.protocol), err=True)
    for warning in find_warnings(study):
        click.echo(f"warning: {warning}", err=True)


@click.command()
@folder_option
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
    study: Study,
    tranche: int | None,
    every: bool,
    reason: str,
    yes: bool,
    check: Path | None,
    as_json: bool,
) -> None:
    """Publish the seeds and nonces of both arms, so that anyone can check the draw.

    It cannot be undone: the seeds are burned for every model of later waves. They go into the
    store, and into a file beside study.yaml (docs/formats.md).

    \b
    Examples:
      dosimeter reveal --tranche 0
      dosimeter reveal --all --yes
      dosimeter reveal --check reveal-study.json
    """
    from study.extras.reveal import reveal as reveals

    if [tranche is not None, every, check is not None].count(True) != 1:
        raise click.UsageError("give one of --tranche, --all and --check")
    if check is not None:
        _check(study, check, as_json)
    tranches = reveals.tranches_to_reveal(study, tranche)
    reveals.check_revealable(study, tranches, reason)
    if not yes:
        which = "all seeds" if every else f"the seeds of tranche {tranche}"
        click.confirm(f"Make {which} public? This cannot be undone.", abort=True, err=True)
    record, path = reveals.reveal(study, tranches, reason, utc_now)
    print_step(record, as_json, f"{record.count} seeds are public: {path}", True)


def _check(study: Study, path: Path, as_json: bool) -> None:
    from study.extras.reveal.reveal import check_revealed

    with progress_watch("checking") as watch:
        count, problems = check_revealed(study, path, watch)
    if as_json:
        print_json({"instances": count, "problems": problems})
    else:
        for problem in problems:
            print_line(f"{path}: {problem}", "broken", "bold red")
        print_line(f"{count} instances made again; {'broken' if problems else 'all holds'}")
    sys.exit(Exit.BROKEN if problems else Exit.DONE)

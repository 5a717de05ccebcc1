"""The command ``dosimeter register``."""

from __future__ import annotations

import click

from study.catalogue import contributions
from study.options import folder_option, json_option
from study.printing import print_step, progress_watch
from study.steps import pipeline
from study.workspace.study import Study


@click.command()
@folder_option
@click.option(
    "--draw",
    "draw_only",
    is_flag=True,
    help="Only draw, seal and announce the seeds; do not record the plan yet.",
)
@click.option(
    "--beacon",
    metavar="drand:ROUND",
    default="",
    show_default="a secret of the study's own",
    help="A future round of drand's quicknet, a public randomness beacon. Its value assigns the "
    "seeds to the arms, so that nobody can choose them.",
)
@click.option(
    "--relay",
    "relays",
    metavar="URL|FILE",
    multiple=True,
    show_default="drand's own",
    help="A relay to read the round from, or a file with its reply. May be repeated.",
)
@click.option(
    "--again",
    metavar="REASON",
    default="",
    show_default="the first draw",
    help="Draw anew, before the plan is registered. The ledger keeps both draws, and the reason.",
)
@click.option(
    "--underpowered",
    metavar="REASON",
    default="",
    show_default=False,
    help="Go on with a plan of too little power. The ledger records the reason and "
    "the report shows it. Default: such a plan is refused.",
)
@click.option(
    "--unproved",
    metavar="REASON",
    default="",
    show_default=False,
    help="Go on with tasks in which `dosimeter template check` or `dosimeter tasks check` finds an "
    "error. The ledger records the reason and the report shows it. Default: they are refused.",
)
@json_option
def register(
    study: Study, draw_only: bool, relays: tuple[str, ...], as_json: bool, **asked: str
) -> None:
    """Draw and seal the seeds, and record the plan, the commit of the code and the sandbox image in
    the ledger.

    Seeds are drawn at random, sealed, announced, and allotted to the arms. The plan is simulated
    first: it is refused if its chance of finding its target gap in a model is below 80 %. So are
    template questions that `dosimeter template check` rejects, families of other packages that
    `dosimeter tasks check` rejects, and anything that a later step would refuse.

    Each model behind a server is asked for a short reply; one that gives none is named.

    With --beacon the draw is announced before the round's value exists. Until then the command
    exits with 1: run it again once the round is public.

    The plan is also written to registration.json beside study.yaml, in the fields of an OSF
    preregistration; nothing in it is private.

    \b
    Examples:
      dosimeter register --study my-study
      dosimeter register --beacon drand:34567890
      jq -r '.fields[] | "## \\(.name)\\n\\(.answer)\\n"' my-study/registration.json
    """
    from registry.draws.beacon import RELAYS
    from study.steps.register.draw import DrawRequest, is_drawn
    from study.steps.register.gate import ask_models, find_warnings
    from study.workspace.setup import REGISTRATION, pinned_image

    underpowered, unproved = asked["underpowered"], asked["unproved"]
    request = DrawRequest(asked["beacon"], relays or RELAYS, asked["again"])
    fresh = not is_drawn(study)
    if draw_only or request.beacon or request.again or fresh:
        with progress_watch("drawing") as watch:
            if not draw_only:
                pinned_image(study.protocol, watch)  # without an engine nothing is drawn either
            sealed, fresh = pipeline.draw(study, watch, underpowered, request, unproved)
        if fresh:
            for describe in contributions("describe_chances"):
                click.echo(f"power: {describe(study.protocol)}", err=True)
            for warning in find_warnings(study):
                click.echo(f"warning: {warning}", err=True)
        if draw_only:
            print_step(sealed, as_json, pipeline.describe_draw(sealed), fresh)
            return
    if not study.ledger.find("preregistration"):
        for silent in ask_models(study):
            click.echo(f"warning: {silent}", err=True)
    with progress_watch("registering") as watch:
        record, new = pipeline.register(study, watch, underpowered, unproved)
    if fresh:
        click.echo(f"drawn: {pipeline.describe_draw(study.sealed_set())}", err=True)
    print_step(record, as_json, pipeline.describe(record), new)
    click.echo(f"for a public registry: {study.folder / REGISTRATION}", err=True)

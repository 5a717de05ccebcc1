"""The command ``dosimeter init``."""

from __future__ import annotations

from pathlib import Path

import click

from study.catalogue import contributions
from study.errors import StudyError
from study.options import PATH
from study.steps.init.folder import check_new, init_study


@click.command()
@click.argument("folder", required=False, type=PATH)
@click.option(
    "--guided", is_flag=True, help="Ask for tasks, target gap and budget; compute the seeds."
)
@click.option("--yes", is_flag=True, help="With --guided: take the default answer everywhere.")
def init(folder: Path | None, guided: bool, yes: bool) -> None:
    """Write a new study's FOLDER (default: here): study.yaml, prices.yaml, a new encryption key.

    The study has two waves and a plan that can find a gap of 10 points. In the file as written, the
    controls are built-in agents, and the model under test is behind a local server: edit `model`
    and `base_url`. With --guided, it asks for tasks and gap, and computes how many seeds they take.

    \b
    Examples:
      dosimeter init my-study
      dosimeter init my-study --guided
      dosimeter init my-study --guided --yes
    """
    place = folder or Path()
    if yes and not guided:
        raise StudyError("--yes: only works with --guided; give both")
    if guided:
        check_new(place)
        guides = list(contributions("write_guided"))
        if not guides:
            raise StudyError("--guided: not installed here; leave it out")
        path = guides[0](place, yes)
    else:
        path = init_study(place)
    click.echo(
        f"wrote {path} and prices.yaml; edit them, then `dosimeter register --study {place}`"
    )
    click.echo(f"the key in {place / 'keys'} opens all that the study seals: keep a copy elsewhere")

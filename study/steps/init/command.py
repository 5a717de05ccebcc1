"""The command ``dosimeter init``."""

from __future__ import annotations

from pathlib import Path

import click

from study.options import PATH
from study.steps.init.folder import init_study, study_of_items


@click.command()
@click.argument("folder", required=False, type=PATH)
@click.option(
    "--items",
    type=PATH,
    metavar="FILE|hf://OWNER/NAME@REVISION",
    show_default="generated tasks",
    help="A study of your own questions: CSV, JSON lines or Parquet, or a private data set of the "
    "Hub. Shows three as models get them, with their keys.",
)
def init(folder: Path | None, items: Path | None) -> None:
    """Write a new study's FOLDER (default: here): study.yaml, prices.yaml, a new encryption key.

    The study has two waves and a plan that can find a gap of 10 points. In the file as written, the
    controls are built-in agents, and the model under test is behind a local server: edit `model`
    and `base_url`.

    \b
    Examples:
      dosimeter init my-study
      dosimeter init my-study --items questions.csv
    """
    place = folder or Path()
    if items is not None:
        path, examples = study_of_items(place, items)
        click.echo("\n\n".join(examples) + "\n")
    else:
        path = init_study(place)
    click.echo(
        f"wrote {path} and prices.yaml; edit them, then `dosimeter register --study {place}`"
    )
    click.echo(f"the key in {place / 'keys'} opens all that the study seals: keep a copy elsewhere")

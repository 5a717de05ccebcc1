"""The command ``dosimeter publish``."""

from __future__ import annotations

import click

from study.options import folder_option, json_option
from study.printing import print_step, progress_watch
from study.steps import pipeline
from study.workspace.study import Study


@click.command()
@folder_option
@click.option(
    "--upload/--no-upload", default=None, help="Default: upload if study.yaml names a repository."
)
@click.option(
    "--tranche",
    "tranches",
    type=click.IntRange(0),
    multiple=True,
    show_default="all that were drawn",
    help="Add the public arm of this tranche only; may be repeated.",
)
@json_option
def publish(study: Study, upload: bool | None, tranches: tuple[int, ...], as_json: bool) -> None:
    """Write the public arm as a dataset, check it for leaks, and upload it if study.yaml says so.

    \b
    Example:
      dosimeter publish --study my-study
    """
    with progress_watch("publishing") as watch:
        release, fresh = pipeline.publish(study, upload, watch, tranches)
    print_step(release, as_json, f"{release.count} public instances: {release.location}", fresh)

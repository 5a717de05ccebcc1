"""The command ``dosimeter publish``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from registry.provenance import utc_now
from study.options import folder_option, json_option
from study.printing import print_json, print_line, print_step, progress_watch
from study.steps import pipeline

if TYPE_CHECKING:
    from study.steps.publish.release import Preview
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
@click.option(
    "--dry-run",
    is_flag=True,
    help="Build and check the release and show it; nothing is kept or recorded.",
)
@json_option
def publish(
    study: Study, upload: bool | None, tranches: tuple[int, ...], dry_run: bool, as_json: bool
) -> None:
    """Write the public arm as a dataset, check it for leaks, and upload it if study.yaml says so.

    \b
    Example:
      dosimeter publish --study my-study --dry-run
      dosimeter publish --study my-study
    """
    from study.steps.publish.release import preview_arm

    with progress_watch("publishing") as watch:
        if dry_run:
            preview = preview_arm(study, upload, watch, utc_now, tranches)
        else:
            release, fresh = pipeline.publish(study, upload, watch, tranches)
    if dry_run:
        print_preview(preview, as_json)
        return
    print_step(release, as_json, f"{release.count} public instances: {release.location}", fresh)


def print_preview(preview: Preview, as_json: bool) -> None:
    """Print what a publication would release."""
    if as_json:
        print_json(dataclasses.asdict(preview))
        return
    print_line(preview.card)
    for name, size in preview.files:
        print_line(f"{size:>12,}  {name}")
    total = sum(size for _, size in preview.files)
    print_line(f"{total:>12,}  bytes in {len(preview.files)} files: {preview.count} instances")
    print_line(f"content: {preview.content}")
    if preview.tags:
        print_line(f"would go to {preview.location} ({preview.access}): {', '.join(preview.tags)}")
    else:
        print_line(f"would go into the folder {preview.location!r} alone")
    print_line("dry run: no leak was found; nothing was kept, uploaded or recorded")

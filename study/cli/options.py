"""The options that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

study_option = click.option(
    "--study",
    "folder",
    default=".",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The study's folder, which holds study.yaml.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
dirty_option = click.option(
    "--allow-dirty",
    is_flag=True,
    help="Go on with uncommitted changes, or another commit, lock or image than registered. "
    "The ledger records it and the report shows it.",
)

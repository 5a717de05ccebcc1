"""The command ``dosimeter lint``."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from study.options import json_option, refuse_address
from study.printing import print_json, progress_watch
from study.protocol.protocol import FILE_NAME
from study.protocol.schema import study_schema
from study.steps.lint.lint import lint_study


@click.command()
@click.argument("path", required=False, metavar="[FILE|DIR]")
@click.option("--study", "folder", default=".", metavar="PATH", help="The same as DIR.")
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of study.yaml instead, for editors."
)
@json_option
def lint(path: str | None, folder: str, schema: bool, as_json: bool) -> None:
    """Check a study file, by default study.yaml here, and do nothing else.

    Errors come with file, line and remedy. Warnings name what later steps will need, such as an API
    key in the environment, and what `register` would refuse, such as a plan with a power below 80
    %. What differs from a registered plan, or from a wave that was begun, is an error where the
    store is a folder here. No key or network is needed. Exits with 2 if there is an error.

    \b
    Examples:
      dosimeter lint
      dosimeter lint my-study --json | jq -r '.[] | select(.level == "error").message'
      dosimeter lint --schema > study.schema.json
    """
    if schema:
        print_json(study_schema())
        return
    refuse_address(place := path or folder)
    file = Path(place, FILE_NAME) if Path(place).is_dir() else Path(place)
    with progress_watch("checking") as watch:
        findings = lint_study(file, os.environ, watch)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(str(finding))
        errors = sum(finding.level == "error" for finding in findings)
        counts = f"{errors or 'no'} error{'s' * (errors != 1)}"
        if warnings := len(findings) - errors:
            counts += f", {warnings} warning{'s' * (warnings != 1)}"
        click.echo(f"{file}: {counts}")
    sys.exit(2 if any(finding.level == "error" for finding in findings) else 0)

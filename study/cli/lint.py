"""The commands ``dosimeter lint`` and ``dosimeter schema``."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from study import protocol as protocols
from study import readiness
from study.cli.output import PATH, json_option, print_json, progress_watch


@click.command()
@click.argument("path", default=".", type=PATH, metavar="[FILE|DIR]")
@json_option
def lint(path: Path, as_json: bool) -> None:
    """Check a study file, by default study.yaml here, and do nothing else.

    All errors are reported, with file, line and remedy; and as warnings what a later step will ask
    for, such as a key in the environment, and what `draw` and `register` refuse, such as a plan
    that would find its target gap with a probability below 80 %. No ledger, key or network is
    needed. Exits with 2 if there is an error.

    \b
    Examples:
      dosimeter lint
      dosimeter lint my-study --json | jq -r '.[] | select(.level == "error").message'
    """
    file = path / protocols.FILE_NAME if path.is_dir() else path
    with progress_watch("checking") as watch:
        findings = readiness.lint_study(file, os.environ, watch)
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


@click.command()
def schema() -> None:
    """Print the JSON Schema of study.yaml, for editors that complete and check YAML.

    The first line of study.yaml names it: # yaml-language-server: $schema=study.schema.json

    \b
    Example:
      dosimeter schema > study.schema.json
    """
    print_json(protocols.study_schema())

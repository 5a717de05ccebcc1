"""The command ``dosimeter demo``."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.report.report import report_json
from study.options import PATH, address_option, json_option
from study.steps.report.command import print_verdicts


@click.command()
@click.option(
    "--study",
    "folder",
    default="demo-study",
    type=PATH,
    help="Folder of the demo's study, new or to be resumed.",
)
@click.option(
    "--sandbox",
    type=click.Choice(["docker", "local"]),
    default="docker",
    help="local needs no engine, and runs the built-in agents only.",
)
@address_option
@json_option
def demo(folder: Path, sandbox: str, address: str | None, as_json: bool) -> None:
    """Run a complete small study, which detects an agent that has read the release.

    If it is interrupted, run it again: it resumes.

    \b
    Example:
      dosimeter demo
    """

    from study.steps.demo.demo import run_demo

    report, path = run_demo(folder, sandbox, address)
    print_verdicts(report_json(report), path, as_json)

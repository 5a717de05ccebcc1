"""The command ``dosimeter demo``."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.report.report import report_json
from study.options import PATH, json_option
from study.printing import progress_watch
from study.steps.report.command import print_verdicts
from study.steps.sweep.live import sweep_watch


@click.command()
@click.option(
    "--study",
    "folder",
    default="demo-study",
    show_default=True,
    type=PATH,
    help="Folder of the demo's study, new or to be resumed.",
)
@click.option(
    "--sandbox",
    type=click.Choice(["docker", "local"]),
    default="docker",
    show_default=True,
    help="local needs no engine, and runs the built-in agents only.",
)
@click.option(
    "--model",
    show_default="no real model",
    metavar="NAME",
    help="A real local model takes part, for a new demo: smollm2, once its weights are fetched.",
)
@click.option(
    "--judge",
    show_default="no judge",
    type=click.Choice(["careless"]),
    help="A built-in judge grades as well, for a new demo, and fails its controls: the report "
    "withholds the verdicts and says why.",
)
@json_option
def demo(folder: Path, sandbox: str, model: str | None, judge: str | None, as_json: bool) -> None:
    """Run a complete small study, which detects an agent that has read the release.

    If it is interrupted, run it again: it resumes.

    \b
    Examples:
      dosimeter demo
      dosimeter models fetch smollm2 && dosimeter demo --study real --model smollm2
      dosimeter demo --study judged --judge careless
    """

    from study.steps.demo.demo import DemoRequest, Display, run_demo

    display = Display(lambda line: click.echo(line, err=True), progress_watch, sweep_watch)
    report, path = run_demo(folder, DemoRequest(sandbox, model, judge), display)
    print_verdicts(report_json(report), path, as_json)

"""``dosimeter grade`` and the commands of ``dosimeter judge``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from study.options import json_option, study_option


@click.command()
@study_option
@click.option(
    "--judge",
    "judges",
    multiple=True,
    required=True,
    help="Of study.yaml; more than once for more.",
)
@click.option("--wave", type=click.IntRange(0), help="Default: every wave that was begun.")
@click.option(
    "--parallel", type=click.IntRange(1, 256), default=4, show_default=True, help="Calls at once."
)
@json_option
def grade(
    folder: Path, judges: tuple[str, ...], wave: int | None, parallel: int, as_json: bool
) -> None:
    """Have judges grade the stored episodes, beside the exact grades. Nothing is run again.

    Interrupt it at will; run it again to resume. No reply is bought twice. Exits with 1 while
    episodes are ungraded because a provider failed.

    \b
    Examples:
      dosimeter grade --judge haiku
      dosimeter grade --judge haiku --judge flash --wave 0 --json
    """
    from study.console import print_json, print_records, progress_watch
    from study.folder import open_study
    from study.judges import GradeRequest, grade_study

    request = GradeRequest(tuple(dict.fromkeys(judges)), wave, parallel)
    with progress_watch("grading") as watch:
        outcome = grade_study(open_study(folder), request, watch)
    if as_json:
        print_json(asdict(outcome))
    else:
        rows = [{**asdict(each), "failures": _told(each.failures)} for each in outcome.judges]
        print_records([{k: v for k, v in row.items() if k != "digest"} for row in rows], False)
        if outcome.alpha is not None:
            click.echo(f"Krippendorff's alpha between the judges: {outcome.alpha:.3f}")
    sys.exit(0 if outcome.complete else 1)


def _told(failures: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in failures)

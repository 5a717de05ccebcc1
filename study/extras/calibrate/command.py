"""The command ``dosimeter calibrate``."""

from __future__ import annotations

from typing import Any

import click

from analysis.calibrate.calibration import RecordedCalibration
from registry.provenance import utc_now
from study.extras.calibrate.from_scores import CalibrateRequest, calibrate_study, record_calibration
from study.options import folder_option, json_option
from study.printing import print_json, print_records
from study.workspace.study import Study


@click.command()
@folder_option
@click.option(
    "--doses",
    default="0,.05,.1,.2,.5,1",
    metavar="F,F,…",
    help="Shares of the public arm that are known.",
)
@click.option("--replicates", type=int, default=20, help="Of each dose.")
@click.option(
    "--wave",
    type=click.IntRange(0),
    help="Whose stored scores are taken. Default: the newest closed one with a clean model.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="The clean model. Default: one that the plan names "
    "as released before publication or frozen.",
)
@json_option
def calibrate(study: Study, doses: str, as_json: bool, **options: Any) -> None:
    """Measure how large a leak the study would detect: the positive control, over doses.

    Known leaks are put into a clean model's stored scores, and the registered test is run on each:
    how often is a share of the public arm found, and from which share on reliably? The
    result is recorded, and reports show it from then on.

    \b
    Examples:
      dosimeter calibrate
      dosimeter calibrate --doses 0,.05,.1,.15,.2 --replicates 200 --json | jq .dose_at_80
    """
    made = calibrate_study(study, CalibrateRequest(_doses(doses), **options))
    kept = record_calibration(study, made, utc_now())
    if as_json:
        print_json(made.body)
    else:
        _print(made)
        click.echo(f"on record: {kept.uri}")


def _doses(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.UsageError(
            f"--doses {text!r}: give shares between 0 and 1 with commas between, such as 0,.1,.5"
        ) from None


def _print(made: RecordedCalibration) -> None:
    from analysis.calibrate.part import calibration_table, calibration_words

    table = calibration_table(made)
    labels = [column.label for column in table.columns]
    rows = [dict(zip(labels, row, strict=True)) for row in table.rows]
    print_records(rows, title=f"Known leaks: {made.model}, wave {made.wave}")
    for line in calibration_words(made):
        click.echo(line)

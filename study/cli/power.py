"""The command `power`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from study.cli.options import json_option

_PATH = click.Path(path_type=Path)
_COUNT = click.IntRange(1)
_SHARE = click.FloatRange(0, 1)


@click.command()
@click.option(
    "--study",
    type=_PATH,
    help="Folder of a study, for its plan. Default: the "
    "preset standard-v1 of 4 strata, 64 instances an arm, 8 looks.",
)
@click.option(
    "--from",
    "source",
    type=_PATH,
    metavar="TABLE|STUDY",
    help="Results whose variance and prices are taken: a CSV or Parquet table, or the "
    "closed waves of a study.",
)
@click.option("--grader", help="The grader to take, if the table has several.")
@click.option("--gap", type=float, default=0.05, show_default=True, help="Inflation to detect.")
@click.option(
    "--power",
    "target",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Wanted for one inflated model.",
)
@click.option("--strata", type=_COUNT, help="Tasks and difficulties.")
@click.option("--seeds", type=click.IntRange(2), help="Instances in each arm of each stratum.")
@click.option("--replicates", type=_COUNT, help="Runs of a model on an instance.")
@click.option("--looks", type=_COUNT, help="Waves that share alpha.")
@click.option("--models", type=_COUNT, help="New models at a look.")
@click.option("--alpha", type=float, help="One-sided, over all looks.")
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    type=click.Choice(["score", "fraction"]),
    help="Default: both, by the larger.",
)
@click.option("--final-only", is_flag=True, help="Only the weighted score is inflated.")
@click.option(
    "--covariate-runs",
    type=click.IntRange(0),
    help="Of models from before, on each instance; 0 for no adjustment.",
)
@click.option(
    "--pre-exposure",
    type=_COUNT,
    help="Models from before the publication, the negative control. Default: the study's, else 4.",
)
@click.option(
    "--frozen",
    type=click.IntRange(0),
    help="How many of them are run again at every look. Default: the study's, else none.",
)
@click.option(
    "--onset",
    type=_COUNT,
    help="The look from which all new models are inflated, for "
    "the study's power. Default: the middle one.",
)
@click.option("--sd", type=float, help="Of a run's score within a stratum.")
@click.option("--seed-share", type=_SHARE, help="Of its variance, that stays with the instance.")
@click.option("--shared-share", "shared", type=_SHARE, help="Of that, what all models share.")
@click.option("--cost-per-episode", type=click.FloatRange(0), metavar="USD")
@click.option("--replications", type=int, default=400, show_default=True)
@click.option(
    "--permutations", type=int, default=1999, show_default=True, help="In each simulated test."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="An SVG to write.")
@json_option
def power(plot: Path | None, as_json: bool, **options: Any) -> None:
    """Estimate the seeds that a study needs, and the smallest inflation that it can detect.

    Studies are simulated and put through the plan's own test: a model's power is to be named at
    its look (P3), the study's to reject by its last (P4). Formulas are shown too. The negative
    controls are simulated too: how often C1 withholds the verdicts of a look although they are
    clean, and the power that is left. What is taken from results is blind to the arms.

    \b
    Examples:
      dosimeter power
      dosimeter power --study my-study --gap 0.1 --plot power.svg
      dosimeter power --from pilot.csv --strata 8 --models 4 --cost-per-episode 0.35
      dosimeter power --looks 1 --models 1 --outcome score --covariate-runs 0 --json
    """
    from analysis.planning import SimulationSize
    from study.cli.output import print_json, progress_watch
    from study.cli.power_output import check_place, print_power, write_plot
    from study.planning import PowerRequest, answer_power

    size = SimulationSize(*(options.pop(name) for name in ("replications", "permutations", "seed")))
    options["outcomes"] = tuple(dict.fromkeys(options["outcomes"]))
    request = PowerRequest(**options, effort=size)
    if plot is not None:
        check_place(plot)
    with progress_watch("simulating") as watch:
        answer = answer_power(request, watch)
    if plot is not None:
        write_plot(plot, answer)
    if as_json:
        print_json(answer.as_json())
    else:
        print_power(answer, plot)

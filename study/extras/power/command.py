"""The command ``dosimeter power``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from analysis.stats.intervals import counted, counted_range
from analysis.words import templates_in
from study.options import PATH, json_option
from study.printing import print_json, print_line, print_records, progress_watch

if TYPE_CHECKING:
    from analysis.power.power import PowerPoint
    from study.extras.power.planning import PowerAnswer


@click.command()
@click.option("--study", default=".", type=PATH, help="Folder of a study, for its plan.")
@click.option(
    "--from",
    "source",
    show_default="published results",
    type=PATH,
    metavar="TABLE|STUDY",
    help="Results whose variance and prices are taken: a CSV or Parquet table, or the "
    "closed waves of a study, else its pilot (`dosimeter pilot`).",
)
@click.option(
    "--grader", show_default="the only one", help="The grader to take, if the table has several."
)
@click.option("--gap", type=float, default=0.1, help="Inflation to detect in a model.")
@click.option(
    "--seeds",
    show_default="the plan's",
    type=click.IntRange(2),
    help="Instances in each arm of each stratum.",
)
@json_option
def power(as_json: bool, **options: Any) -> None:
    """Estimate the seeds that a study needs, and the smallest inflation that it can detect.

    Studies are simulated and put through the plan's own test. Power for a model is the chance that
    the test names it at its look; for the study, that the test of the study rejects by its last
    look. Formulas are shown too. What is taken from results is blind to the arms. Everything else
    comes from the plan; to try another plan, change study.yaml.

    \b
    Examples:
      dosimeter power
      dosimeter power --study my-study --gap 0.1
      dosimeter power --study my-study --from my-study
      dosimeter power --study my-study --from pilot.csv --seeds 96 --json
    """
    from analysis.plan.presets import look_alpha
    from study.extras.power.planning import PowerRequest, answer_power

    with progress_watch("simulating") as watch:
        answer = answer_power(PowerRequest(**options), watch)
    if as_json:
        print_json(answer.as_json())
        return
    filters = {"counted": counted, "counted_range": counted_range}
    text = templates_in(__package__, escape=False, **filters).get_template("answer.txt.j2")
    for line in text.render(answer=answer, look_alpha=look_alpha(answer.plan)).split("\n"):
        print_line(line)
    for title, curve in (("Seeds", answer.seeds), ("Inflation", answer.gaps)):
        print_records([_row(answer, point) for point in curve.points], title=title)


def _row(answer: PowerAnswer, point: PowerPoint) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seeds": point.seeds,
        "points": f"{100 * point.gap:.1f}",
        "a model": _share(point.power, point.error),
        "by formula": f"{point.formula:.2f}",
        "cleared": _share(point.cleared, point.cleared_error),
    }
    if point.study_power is not None:
        row["the study"] = _share(point.study_power, point.study_error)
        row["mean look"] = "–" if point.study_look is None else f"{point.study_look:.1f}"
    row["episodes"] = answer.episodes(point.seeds)
    cost = answer.cost(point.seeds)
    return row if cost is None else row | {"USD": f"{cost:,.2f}"}


def _share(value: float | None, error: float | None) -> str:
    return f"{value or 0.0:.2f} ± {error or 0.0:.2f}"

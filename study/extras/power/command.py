"""The command ``dosimeter power``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from analysis.stats.intervals import counted, counted_range
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
    from study.extras.power.planning import PowerRequest, answer_power

    with progress_watch("simulating") as watch:
        answer = answer_power(PowerRequest(**options), watch)
    if as_json:
        print_json(answer.as_json())
        return
    for line in (*_premises(answer), "", *_findings(answer)):
        print_line(line)
    for title, curve in (("Seeds", answer.seeds), ("Inflation", answer.gaps)):
        print_records([_row(answer, point) for point in curve.points], title=title)


def _premises(answer: PowerAnswer) -> list[str]:
    from analysis.plan.presets import look_alpha

    plan, setting, components = answer.plan, answer.setting, answer.components
    every_model, one_model, one_run = components.parts
    deviations = zip(components.sd, plan.outcomes, strict=False)
    spread = " and ".join(f"{deviation:.3f} ({outcome})" for deviation, outcome in deviations)
    runs = setting.control_models * setting.control_runs
    calibrated = f"calibrated by {runs} control runs" if runs else "not calibrated"
    lines = [
        f"Plan {plan.name}: {len(plan.strata)} strata × {counted_range(plan.sizes, 'instance')} "
        f"an arm × {counted(plan.replicates, 'run')}; {plan.looks} looks of {setting.models} new "
        f"models; one-sided alpha {plan.alpha:g}, {look_alpha(plan):.3g} a look; {calibrated}.",
        f"Variance from {answer.source}: SD of a run {spread}; {100 * every_model:.1f} % of the "
        f"variance is the instance's for every model, {100 * one_model:.1f} % for one model, "
        f"{100 * one_run:.1f} % the run's.",
    ]
    if (pilot := answer.pilot) is not None:
        lines.append(
            f"Pilot: {pilot.runs} runs of {len(pilot.models)} models on {pilot.instances} "
            f"instances, {pilot.repeats} of them repeats; arms were not looked at."
        )
        lines += [f"Note: {note}." for note in pilot.notes]
    lines.append(
        f"Simulated: {answer.effort.replications} studies a point, "
        f"{answer.effort.permutations} permutations each."
    )
    return lines


def _findings(answer: PowerAnswer) -> list[str]:
    planned, gap = answer.planned, f"{100 * answer.setting.gap:g} points"
    lines = [
        f"As planned, {gap} in one new model: power {_share(planned.power, planned.error)} "
        f"(formula {planned.formula:.2f}).",
        f"As planned, a model without inflation is cleared (no inflation of the published "
        f"instances above {100 * answer.plan.margin:g} points) with probability "
        f"{_share(planned.cleared, planned.cleared_error)}.",
    ]
    if planned.study_power is not None:
        look = planned.study_look
        average = "" if look is None else f", at look {look:.1f} on average"
        lines.append(
            f"As planned, {100 * answer.setting.study_gap:g} points in all new models from look "
            f"{answer.setting.onset} on: the study rejects with power "
            f"{_share(planned.study_power, planned.study_error)}{average}."
        )
    lines += [_needed(answer, gap), _detectable(answer), _of_markers(answer)]
    return [*lines, f"As planned: {_episodes(answer, planned.seeds)}."]


def _needed(answer: PowerAnswer, gap: str) -> str:
    curve = answer.seeds
    if curve.value is None:
        return f"For power {curve.target:g} at {gap}: no number of seeds within reach."
    seeds = int(curve.value)
    return (
        f"For power {curve.target:g} at {gap}: {seeds} instances an arm and stratum "
        f"({seeds * len(answer.plan.strata)} an arm; formula {curve.formula:.0f}), "
        f"{_episodes(answer, seeds)}."
    )


def _detectable(answer: PowerAnswer) -> str:
    curve = answer.gaps
    if curve.value is None:
        return f"As planned, no inflation within reach is seen with power {curve.target:g}."
    at, formula = 100 * curve.value, 100 * (curve.formula or 0.0)
    return f"As planned, power {curve.target:g} begins at {at:.1f} points (formula {formula:.1f})."


def _of_markers(answer: PowerAnswer) -> str:
    known = " and ".join(f"{100 * share:g} % with {power:.2f}" for share, power in answer.markers)
    asked = sum(answer.plan.sizes)
    return (
        f"Markers (`dosimeter probe --markers`): of {asked} public instances, a model that recalls "
        f"{known} probability is found exposed."
    )


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


def _episodes(answer: PowerAnswer, seeds: int) -> str:
    cost = answer.cost(seeds)
    return f"{answer.episodes(seeds):,} episodes" + ("" if cost is None else f", ${cost:,.2f}")

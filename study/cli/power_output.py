"""What `dosimeter power` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from analysis.plan import look_alpha
from analysis.planning import PowerPoint
from analysis.stats import counted
from study.errors import StudyError
from study.planning import PowerAnswer


def print_power(answer: PowerAnswer, plot: Path | None) -> None:
    """The answer in words, and both curves as tables."""
    from study.cli.output import print_records, stdout

    console = stdout()
    for line in (*_premises(answer), "", *_findings(answer)):
        console.print(line, markup=False, soft_wrap=True)
    for title, curve in (("Seeds", answer.seeds), ("Inflation", answer.gaps)):
        print_records([_row(answer, point) for point in curve.points], False, title=title)
    if plot is not None:
        console.print(f"plot: {plot}", markup=False, soft_wrap=True)


def check_place(path: Path) -> None:
    """Raise StudyError where no file can be put, before anything is simulated."""
    if not path.parent.is_dir():
        raise StudyError(f"{path}: there is no folder {path.parent}")


def write_plot(path: Path, answer: PowerAnswer) -> None:
    """The curves as an SVG file. Raises AnalysisError where it cannot be written."""
    from analysis.files import write_whole
    from analysis.report.figures import plot_power

    text = plot_power(answer.seeds, answer.gaps, len(answer.plan.strata), answer.cost)
    try:
        write_whole(path, text)
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be written ({error.strerror})") from error


def _premises(answer: PowerAnswer) -> list[str]:
    plan, setting, components = answer.plan, answer.setting, answer.components
    everyone, own, run = components.parts
    spread = " and ".join(
        f"{sd:.3f} ({o})" for sd, o in zip(components.sd, plan.outcomes, strict=False)
    )
    adjusted = (
        f"adjusted by {setting.covariate_runs} pre-exposure runs"
        if setting.covariate_runs
        else "not adjusted"
    )
    lines = [
        f"Plan {plan.name}: {len(plan.strata)} strata × {plan.seeds_per_arm} instances an arm × "
        f"{counted(plan.replicates, 'run')}; {plan.looks} looks of {setting.models} new models; "
        f"one-sided alpha {plan.alpha:g}, {look_alpha(plan):.3g} a look; {adjusted}.",
        f"Variance from {answer.source}: SD of a run {spread}; {100 * everyone:.1f} % of the "
        f"variance is the instance's for every model, {100 * own:.1f} % for one model, "
        f"{100 * run:.1f} % the run's.",
    ]
    if answer.pilot is not None:
        pilot = answer.pilot
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
        *_control_words(answer, gap),
        *_study_words(planned, gap, answer.setting.onset),
        _needed(answer, gap),
        _detectable(answer),
        f"As planned: {answer.episodes(planned.seeds):,} episodes"
        + _price(answer.cost(planned.seeds))
        + ".",
    ]
    return lines


def _control_words(answer: PowerAnswer, gap: str) -> list[str]:
    """What control C1 leaves of a look's verdicts."""
    planned, rules, controls = answer.planned, answer.plan.standard, answer.setting.controls
    if rules is None or controls is None or planned.withheld is None or planned.half_width is None:
        return ["No negative control is named: C1 withholds nothing."]
    named = counted(len(controls.baseline), "run") + " over all instances by models from before"
    if controls.frozen:
        named += f", {len(controls.frozen)} of frozen models at the look"
    kept = _share(planned.issued or 0.0, planned.issued_error or 0.0)
    lines = [
        f"Negative controls: {named}. Half of their 90 % interval is {100 * planned.half_width:.1f}"
        f" points; ±{100 * rules.control_margin:g} must hold all of it.",
        "Verdicts of a look are withheld by C1, the controls being clean, with probability "
        f"{_share(planned.withheld, planned.withheld_error or 0.0)}; {gap} in one new model are "
        f"named and not withheld with power {kept}.",
    ]
    return [*lines, _warning(answer)] if answer.often_withheld else lines


def _warning(answer: PowerAnswer) -> str:
    says = "Warning: C1 would withhold the verdicts of more than one look in five. "
    if not answer.remedies:
        return says + "No number of instances or models within reach keeps it to 10 %."
    remedies = " or ".join(
        f"{each.count} {each.what} ({_share(each.withheld, each.error)} simulated)"
        for each in answer.remedies
    )
    return says + f"To keep it to 10 %: {remedies}, all else as planned."


def _study_words(planned: PowerPoint, gap: str, onset: int) -> list[str]:
    """Of a plan that monitors the study."""
    if planned.study_power is None:
        return []
    look = "" if planned.study_look is None else f", at look {planned.study_look:.1f} on average"
    return [
        f"As planned, {gap} in all new models from look {onset} on: the study rejects with power "
        f"{_share(planned.study_power, planned.study_error or 0.0)}{look}."
    ]


def _needed(answer: PowerAnswer, gap: str) -> str:
    curve = answer.seeds
    if curve.value is None:
        return f"For power {curve.target:g} at {gap}: no number of seeds within reach."
    seeds = int(curve.value)
    return (
        f"For power {curve.target:g} at {gap}: {seeds} instances an arm and stratum "
        f"({seeds * len(answer.plan.strata)} an arm; formula {curve.formula:.0f}), "
        f"{answer.episodes(seeds):,} episodes{_price(answer.cost(seeds))}."
    )


def _detectable(answer: PowerAnswer) -> str:
    curve = answer.gaps
    if curve.value is None:
        return f"As planned, no inflation within reach is seen with power {curve.target:g}."
    formula = 100 * (curve.formula or 0.0)
    return (
        f"As planned, power {curve.target:g} begins at {100 * curve.value:.1f} points "
        f"(formula {formula:.1f})."
    )


def _row(answer: PowerAnswer, point: PowerPoint) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seeds": point.seeds,
        "points": f"{100 * point.gap:.1f}",
        "a model": _share(point.power, point.error),
        "by formula": f"{point.formula:.2f}",
    }
    if point.study_power is not None:
        row["the study"] = _share(point.study_power, point.study_error or 0.0)
        row["mean look"] = "–" if point.study_look is None else f"{point.study_look:.1f}"
    if point.withheld is not None:
        row["withheld"] = _share(point.withheld, point.withheld_error or 0.0)
        row["issued"] = _share(point.issued or 0.0, point.issued_error or 0.0)
    row["episodes"] = answer.episodes(point.seeds)
    cost = answer.cost(point.seeds)
    return row if cost is None else row | {"USD": f"{cost:,.2f}"}


def _share(value: float, error: float) -> str:
    return f"{value:.2f} ± {error:.2f}"


def _price(cost: float | None) -> str:
    return "" if cost is None else f", ${cost:,.2f}"

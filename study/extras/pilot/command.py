"""The command ``dosimeter pilot``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from registry.provenance import utc_now
from study.options import json_option, models_option, study_option, unknown_price_option
from study.printing import exit_by, print_json, print_line, print_records
from study.steps.sweep.command import outcome_json, print_outcome
from study.steps.sweep.live import sweep_watch
from study.workspace.study import Study

if TYPE_CHECKING:
    from analysis.power.pilot import TurnScore
    from study.extras.pilot.pilot import PilotModel, PilotOutcome


@click.command()
@study_option
@models_option("study.yaml")
@click.option(
    "--seeds",
    type=click.IntRange(2, 1000),
    default=2,
    help="Instances of each task in each of the pilot's two arms.",
)
@click.option("--runs", type=click.IntRange(1, 100), default=2, help="Of a model on an instance.")
@unknown_price_option("Run models")
@json_option
def pilot(study: Study, models: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Run models on a few instances apart from the study's, before anything is registered.

    A pilot is a scratch study in a folder under pilot/, with a draw of its own, that the ordinary
    steps run. Shows score against turns, ceiling and floor (the share of runs that score 1 and 0),
    and cost. `dosimeter power --from` shows how its scores vary, and takes the
    variance from it. Interrupt it at will; run it again to resume. Exits with 1 while episodes
    are owed because a provider failed or the budget does not pay for them.

    \b
    Examples:
      dosimeter pilot --model nova-1 --seeds 3
      dosimeter pilot --json | jq '.scores[] | {model, stratum, turns, score}'
    """
    from study.extras.pilot import pilot as pilots  # with numpy, which other commands need not load

    request = pilots.PilotRequest(tuple(dict.fromkeys(models)), **options)
    with sweep_watch("pilot") as watch:
        made = pilots.run_pilot(study, request, watch, watch.steps, utc_now)
    if as_json:
        print_json(_outcome_json(made))
    else:
        _print_outcome(made)
    exit_by(made.complete)


def _usd(value: float | None, free: bool, unknown: str = "unknown") -> str:
    if free:
        return "free"
    return unknown if value is None else f"{value:,.4f}"


def _outcome_json(made: PilotOutcome) -> dict[str, Any]:
    return {
        "complete": made.complete,
        "folder": str(made.folder),
        "scores": [asdict(row) for row in made.scores],
        "models": [{**asdict(model), "usd_of_run": model.usd_of_run} for model in made.models],
        "skipped": [{"model": name, "reason": reason} for name, reason in made.skipped],
        "sweep": outcome_json(made.swept, 0, made.pins),
    }


def _print_outcome(made: PilotOutcome) -> None:
    if made.scores:
        rows = [_score_row(row) for row in made.scores]
        right = ("turns", "score", "at 100", "at 0", "out of turns")
        print_records(rows, title="Scores after so many turns, in points", right=right)
        print_line(
            "* the task's own turns; with fewer, a run that took more counts 0. ±: standard error "
            "over instances. At 100, at 0, out of turns: shares of the runs."
        )
    rows = [_model_row(model) for model in made.models]
    print_records(rows, title="What it took", right=("USD", "USD a run"))
    for name, reason in made.skipped:
        print_line(f"{name}: {reason}; not run")
    print_outcome(made.swept, 0, made.pins)


def _score_row(row: TurnScore) -> dict[str, Any]:
    error = "" if row.error is None else f" ± {100 * row.error:.1f}"
    return {
        "model": row.model,
        "stratum": row.stratum,
        "turns": f"{row.turns}{'*' if row.turns == row.limit else ' '}",
        "runs": row.runs,
        "score": f"{100 * row.score:.1f}{error}",
        "at 100": _percent(row.ceiling),
        "at 0": _percent(row.floor),
        "out of turns": _percent(row.at_limit),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _model_row(model: PilotModel) -> dict[str, Any]:
    unknown = "unknown" if model.runs else "–"
    return {
        "model": model.model,
        "runs": model.runs,
        "input tokens": model.input_tokens,
        "output tokens": model.output_tokens,
        "USD": _usd(model.usd, model.free, unknown),
        "USD a run": _usd(model.usd_of_run, model.free, unknown),
    }

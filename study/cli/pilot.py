"""The command ``dosimeter pilot``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from generators import task as tasks
from registry.provenance import utc_now
from study import sweeps
from study.cli.output import (
    accounts_json,
    count_failures,
    exit_by,
    json_option,
    models_option,
    parallel_option,
    print_accounts,
    print_failing,
    print_json,
    print_line,
    print_records,
    progress_watch,
    study_option,
    unknown_price_option,
)

if TYPE_CHECKING:
    from analysis.planning import StratumVariance, TurnScore
    from study.sweeps import PilotForecast, PilotModel, PilotOutcome
    from study.workspace import Study


@click.command()
@study_option
@models_option("study.yaml")
@click.option(
    "--difficulty",
    "difficulties",
    multiple=True,
    type=click.Choice(tasks.DIFFICULTIES),
    help="Run the families of the study's tasks at this difficulty; more than once for more. "
    "Questions of templates, which have none, are left out. Default: the study's tasks.",
)
@click.option(
    "--turns",
    multiple=True,
    type=click.IntRange(1, 1000),
    help="A turn budget to run beside the task's own; more than once for more. Default: a quarter "
    "and a half of the task's own.",
)
@click.option(
    "--instances",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Of each stratum.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    help="Of a model on an instance, with each turn budget.",
)
@parallel_option
@unknown_price_option("Run models")
@click.option(
    "--estimate",
    is_flag=True,
    help="Only show the episodes still owed and what they may cost; no network.",
)
@json_option
def pilot(
    study: Study,
    models: tuple[str, ...],
    difficulties: tuple[str, ...],
    turns: tuple[int, ...],
    estimate: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run models on a few instances apart from the study's, before anything is registered.

    Shows score against turns, ceiling and floor (the share of runs that score 1 and 0), cost, and
    how scores vary. `dosimeter power --from` and `dosimeter init --guided --from` take the variance
    from it. Its instances are in neither arm, and its runs in no wave, table or test. Interrupt it
    at will; run it again to resume. Exits with 1 while episodes are owed because a provider failed
    or the budget does not pay for them.

    \b
    Examples:
      dosimeter pilot --estimate
      dosimeter pilot --model nova-1 --instances 6
      dosimeter pilot --difficulty easy --difficulty hard --turns 5
      dosimeter pilot --json | jq '.scores[] | {model, stratum, turns, score}'
    """
    request = sweeps.PilotRequest(
        tuple(dict.fromkeys(models)),
        tuple(dict.fromkeys(difficulties)),
        tuple(dict.fromkeys(turns)),
        **options,
    )
    if estimate:
        _print_forecast(sweeps.forecast_pilot(study, request), as_json)
        return
    with progress_watch("pilot") as watch:
        made = sweeps.run_pilot(study, request, watch, utc_now)
    if as_json:
        print_json(_outcome_json(made))
    else:
        _print_outcome(made)
        print_failing(study.protocol.models, ((m.model, m.calls.failures) for m in made.models))
    exit_by(made.complete)


def _print_forecast(forecasts: Sequence[PilotForecast], as_json: bool) -> None:
    if as_json:
        print_json({"models": [asdict(forecast) for forecast in forecasts]})
        return
    rows = [
        {
            "model": forecast.model,
            "episodes": forecast.episodes,
            "USD, first requests": _usd(forecast.first_usd, forecast.free),
            "USD at most": _usd(forecast.most_usd, forecast.free, "no bound"),
        }
        for forecast in forecasts
    ]
    print_records(
        rows, title="What the pilot still takes", right=("USD, first requests", "USD at most")
    )
    print_line(
        "An episode takes several requests, and each repeats what came before. The most is that of "
        "full contexts and the longest replies in every turn; it needs `context` and `max_tokens`."
    )


def _usd(value: float | None, free: bool, unknown: str = "unknown") -> str:
    if free:
        return "free"
    return unknown if value is None else f"{value:,.4f}"


def _outcome_json(made: PilotOutcome) -> dict[str, Any]:
    return {
        "complete": made.complete,
        "scores": [
            {**asdict(row), "turns_of_the_task": made.limits[row.stratum]} for row in made.scores
        ],
        "variance": [_variance_json(row) for row in made.variance],
        "models": [{**asdict(model), "usd_of_run": model.usd_of_run} for model in made.models],
        "skipped": [{"model": name, "reason": reason} for name, reason in made.skipped],
        "budget": accounts_json(made.accounts),
    }


def _variance_json(row: StratumVariance) -> dict[str, Any]:
    return {
        "stratum": row.stratum or None,
        "outcomes": list(row.outcomes),
        "reason": row.reason or None,
        "found": None
        if row.found is None
        else {**asdict(row.found), "icc": row.found.components.seed_share},
    }


def _print_outcome(made: PilotOutcome) -> None:
    if made.scores:
        rows = [_score_row(row, made.limits[row.stratum]) for row in made.scores]
        right = ("turns", "score", "at 100", "at 0", "out of turns")
        print_records(rows, title="Scores by turn budget, in points", right=right)
        print_line(
            "* the task's own turns. ±: standard error over instances. At 100, at 0, out of turns: "
            "shares of the runs."
        )
    if any(row.found is not None for row in made.variance):
        title = "How scores vary with the task's own turns: SD in points, shares of the variance"
        rows = [_variance_row(row) for row in made.variance]
        print_records(rows, title=title, right=tuple(rows[0])[1:])
        print_line("ICC: the share that stays with the instance, for all models and for one.")
        for line in _variance_notes(made.variance):
            print_line(line)
    elif made.variance:
        print_line(made.variance[-1].reason)
    rows = [_model_row(model) for model in made.models]
    print_records(rows, title="What it took", right=("USD", "USD a run"))
    for name, reason in made.skipped:
        print_line(f"{name}: {reason}; not run")
    print_accounts(made.accounts, made.over_budget)


def _score_row(row: TurnScore, limit: int) -> dict[str, Any]:
    error = "" if row.error is None else f" ± {100 * row.error:.1f}"
    return {
        "model": row.model,
        "stratum": row.stratum,
        "turns": f"{row.turns}{'*' if row.turns == limit else ' '}",
        "runs": row.runs,
        "score": f"{100 * row.score:.1f}{error}",
        "at 100": _percent(row.ceiling),
        "at 0": _percent(row.floor),
        "out of turns": _percent(row.at_limit),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _variance_row(row: StratumVariance) -> dict[str, Any]:
    stratum = row.stratum or "all"
    if row.found is None:
        return {"stratum": stratum, **dict.fromkeys(_PARTS, "–")}
    components = row.found.components
    parts = (components.seed_share, *components.parts)
    values = (f"{100 * components.sd[0]:.1f}", *map(_percent, parts))
    return {"stratum": stratum, **dict(zip(_PARTS, values, strict=True))}


_PARTS = ("SD of a run", "ICC", "instance, all models", "instance, one model", "run")


def _variance_notes(rows: Sequence[StratumVariance]) -> list[str]:
    """Return lines on strata without an estimate, and on limits of the numbers over all strata."""
    notes = [f"{row.stratum or 'all'}: {row.reason}" for row in rows if row.found is None]
    whole = rows[-1]
    if whole.found is not None:
        notes += [f"note: {note}" for note in whole.found.notes]
        if whole.reason:
            notes.append(f"too few runs for `dosimeter power --from`: {whole.reason}")
    return notes


def _model_row(model: PilotModel) -> dict[str, Any]:
    unknown = "unknown" if model.done else "–"
    return {
        "model": model.model,
        "owed": model.owed,
        "done": model.done,
        "done now": model.calls.fresh,
        "input tokens": model.input_tokens,
        "output tokens": model.output_tokens,
        "USD": _usd(model.usd, model.free, unknown),
        "USD a run": _usd(model.usd_of_run, model.free, unknown),
        "failures": count_failures(model.calls.failures),
    }

"""The command ``dosimeter sweep``, with its estimate and its preview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from study.options import cluster_address, dirty_option, json_option, study_option
from study.printing import (
    exit_by,
    print_json,
    print_line,
    print_note,
    print_records,
    stdout,
    styled,
)
from study.steps import pipeline
from study.steps.sweep.accounts import accounts_json, print_accounts
from study.steps.sweep.failing import address_of, explain_failure
from study.steps.sweep.history import early_models
from study.steps.sweep.live import model_json, sweep_watch
from study.steps.sweep.preview import preview_extras, render_wave, rendered_json
from study.steps.sweep.spending import ALLOW
from study.steps.sweep.sweep import SweepRequest

if TYPE_CHECKING:
    from harness.model import Message
    from harness.spending.prices import Price
    from registry.ledger.records import ModelPin
    from study.steps.sweep.estimate import Estimate, Forecast, Interval
    from study.steps.sweep.preview import ExtraPreview, Rendered
    from study.steps.sweep.sweep import SweepOutcome
    from study.workspace.study import Study


@click.command()
@study_option
@click.option("--wave", required=True, type=click.IntRange(0), help="Which wave of study.yaml.")
@click.option(
    "--address",
    callback=cluster_address,
    show_default="start one here",
    help="Ray cluster: auto, HOST:6379 or ray://HOST:10001.",
)
@click.option(
    "--workers",
    show_default="study.yaml's, else 1",
    type=click.IntRange(1),
    help="Number of Ray workers; one for each machine is enough.",
)
@click.option(
    "--parallel",
    show_default="study.yaml's, else 6",
    type=click.IntRange(1, 1024),
    help="Number of episodes that a worker runs at once.",
)
@click.option(
    "--close-missing",
    is_flag=True,
    help="Try failed episodes once more, record those that fail again as missing, close the wave.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Return once the sweep is running on the cluster: see `dosimeter wave attach`.",
)
@click.option(
    "--estimate", is_flag=True, help="Only estimate the remaining episodes, tokens and cost."
)
@click.option("--dry-run", is_flag=True, help="Only show the first requests; no network, no key.")
@click.option(
    "--allow-unknown-price",
    is_flag=True,
    help="Run models whose price is not in the price file; their cost stays unknown.",
)
@dirty_option
@json_option
def sweep(study: Study, estimate: bool, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Run every episode that a wave still owes. Interrupt it at will; run it again to resume.

    If a provider is down or limits requests, its models wait and others go on. Exits with 1 if
    episodes are left: their attempts failed, a model's API key was refused, or the budget in
    study.yaml does not pay for them. With --json, progress goes to stderr, one JSON object a line.

    \b
    Examples:
      dosimeter sweep --wave 0
      dosimeter sweep --wave 0 --address head:6379 --workers 16
      dosimeter sweep --wave 0 --estimate --json | jq .cost_usd
      dosimeter sweep --wave 0 --dry-run
    """
    if estimate and dry_run:
        raise click.UsageError("--estimate and --dry-run exclude each other: give one")
    request = SweepRequest(**options)
    wave = request.wave
    if dry_run:
        extras = preview_extras(study, wave)
        _print_dry_run(render_wave(study, wave), extras, as_json)
        return
    if estimate:
        from study.steps.sweep.estimate import estimate_wave

        _print_estimate(estimate_wave(study, wave), as_json)
        return
    study.protocol.wave_models(wave)
    if early := early_models(study, wave):
        print_note(
            f"the public arm is not released: {', '.join(early)} will get no verdict at wave "
            f"{wave}; `dosimeter publish` comes first if one is wanted (docs/waves.md)"
        )
    with sweep_watch(f"wave {wave}") as watch:
        outcome = pipeline.sweep(study, request, watch, watch.begin, watch.count)
    pins = study.protocol.wave_models(wave)
    if as_json:
        print_json(outcome_json(outcome, wave, pins))
    else:
        print_outcome(outcome, wave)
        print_failed(outcome, pins)
    exit_by(outcome.closed is not None or request.detach)


def outcome_json(outcome: SweepOutcome, wave: int, pins: Sequence[ModelPin]) -> dict[str, Any]:
    """Return the outcome of a sweep for ``--json``."""
    progress, addresses = outcome.progress, {pin.name: address_of(pin) for pin in pins}
    models = () if progress is None else progress.models
    return {
        "wave": wave,
        "closed": None if outcome.closed is None else asdict(outcome.closed),
        "exhausted": 0 if progress is None else progress.exhausted,
        "failures": {} if progress is None else dict(progress.failures),
        "failing": [
            {
                "model": model.model,
                "address": addresses[model.model],
                "failure": failed.error_class,
                "times": failed.attempts,
                "episodes": failed.cells,
            }
            for model in models
            for failed in model.failures
        ],
        "stopped": [] if progress is None else [each.model for each in progress.stopped],
        "lost": 0 if progress is None else progress.lost,
        "held": 0 if progress is None else progress.held,
        "budget": [] if progress is None else accounts_json(progress.accounts),
        "models": [model_json(model) for model in models],
    }


def print_failed(outcome: SweepOutcome, pins: Sequence[ModelPin]) -> None:
    """Print the failures of each model, with what to do."""
    if rows := _failing_rows(outcome, pins):
        title = "Failed attempts: what failed, why, and what to do"
        print_records(rows, title=title, right=("episodes", "attempts"))


def _failing_rows(outcome: SweepOutcome, pins: Sequence[ModelPin]) -> list[dict[str, Any]]:
    """Return a row for each model and class of failure."""
    known = {pin.name: pin for pin in pins}
    models = () if outcome.progress is None else outcome.progress.models
    rows = []
    for model in models:
        for failed in model.failures:
            cause = explain_failure(known[model.model], failed.error_class)
            rows.append(
                {
                    "model": model.model,
                    "failure": cause.name,
                    "episodes": failed.cells,
                    "attempts": failed.attempts,
                    "why": " at ".join(filter(None, (cause.reason, cause.address))) or None,
                    "what to do": cause.remedy,
                }
            )
    return rows


def print_outcome(outcome: SweepOutcome, wave: int) -> None:
    """Print whether a wave is closed; if not, the reason."""
    closed, progress = outcome.closed, outcome.progress
    if progress is not None and progress.lost:
        print_line(
            f"{_episodes(progress.lost)} lost the worker: of each, at most one reply was on its "
            "way and was paid for twice"
        )
    accounts = progress.accounts if progress else ()
    open_label = f"wave {wave} stays open:"
    if closed is not None:
        scored = f"{closed.finished} of {closed.owed} episodes scored"
        print_line(f"wave {wave} is closed: {scored}, {closed.missing} missing")
        print_accounts(accounts)
    elif progress is None:
        print_line(
            f"the sweep of wave {wave} runs on the cluster by itself: follow it with `dosimeter "
            f"wave attach {wave}`; see also `wave pause`, `resume` and `stop`"
        )
    elif progress.fenced:
        print_line("another sweep of it has taken over; this one buys nothing more.", open_label)
    elif progress.asked.value == "stop" and not progress.done:
        print_line(
            f"stopped by `dosimeter wave stop {wave}`. Finished work is kept; run this again to "
            "continue.",
            open_label,
        )
    elif progress.held:
        print_line(
            f"its budget does not pay for {_episodes(progress.held)} still owed. Raise "
            "`budget:` in study.yaml and run this again; no request is paid for twice.",
            open_label,
            "yellow",
        )
        print_accounts(accounts)
    elif progress.stopped:
        owed = ", ".join(f"{_episodes(m.waiting)} of {m.model}" for m in progress.stopped)
        print_line(
            f"still owed are {owed}: the key was refused. Put a valid one into the variable that "
            "the table names and run this again; no request is paid for twice.",
            open_label,
            "yellow",
        )
    else:
        print_line(
            f"{_episodes(progress.exhausted)} failed on every attempt. Run this again to retry, or "
            "add --close-missing to record them as missing.",
            open_label,
            "yellow",
        )


def _episodes(count: int) -> str:
    return "1 episode" if count == 1 else f"{count} episodes"


# --- The first requests ---


def _print_dry_run(
    rendered: Sequence[Rendered], extras: Sequence[ExtraPreview], as_json: bool
) -> None:
    """Print the first requests to models, and those of extras."""
    if as_json:
        requests = [rendered_json(request) for request in rendered]
        more = {extra.name: [dict(call.body) for call in extra.calls] for extra in extras}
        print_json({"requests": requests, **more})
        return
    for request in rendered:
        stated = "".join(f", {name}: {value}" for name, value in request.settings)
        print_line(f"{request.provider}, {request.version}{stated}", request.model, "bold")
        for tool in request.tools:
            print_line(f"{tool.name}: {tool.description}", "tool", "bold")
        _print_messages(f"{request.stratum} for {request.model}", request.messages)
    for call in (call for extra in extras for call in extra.calls):
        _print_messages(call.title, call.messages)
    print_records([_request_row(request) for request in rendered], title="First requests")
    for extra in extras:
        if extra.calls:
            print_records([dict(call.row) for call in extra.calls], title=extra.name.capitalize())
    print_line("tokens are estimates on the safe side; nothing was sent and nothing written")


def _print_messages(title: str, messages: Sequence[Message]) -> None:
    stdout().rule(styled(title), align="left")
    for message in messages:
        print_line(message.text, message.role, "bold")


def _request_row(request: Rendered) -> dict[str, Any]:
    return {
        "model": request.model,
        "stratum": request.stratum,
        "mode": str(request.mode),
        "tokens": request.tokens,
        "text": request.text_tokens,
        "pictures": request.picture_tokens,
        "tools": request.tool_tokens,
        "files": len(request.files),
        "turns": request.turns,
        "working minutes": request.limits.working_seconds / 60,
    }


def _range(low: float, high: float | None, digits: int) -> str:
    return f"{low:,.{digits}f} … {'no bound' if high is None else f'{high:,.{digits}f}'}"


# --- The estimate ---


def _print_estimate(made: Estimate, as_json: bool) -> None:
    from study.steps.sweep.estimate import LEVEL, total_usd

    if as_json:
        print_json(
            {
                "wave": made.wave,
                "level": LEVEL,
                "prices": made.pricing.prices.digest or None,
                "models": [_forecast_json(forecast) for forecast in made.forecasts],
                "cost_usd": _interval_json(total_usd(made.forecasts)),
            }
        )
        return
    title = f"What wave {made.wave} still owes"
    print_records([_forecast_row(forecast) for forecast in made.forecasts], title=title)
    for line in _notes(made):
        print_line(line)


def _forecast_json(forecast: Forecast) -> dict[str, Any]:
    from study.steps.sweep.estimate import QUANTITIES

    return {
        "model": forecast.model,
        "episodes": forecast.episodes,
        "basis": forecast.basis,
        "pilots": forecast.pilots,
        "price": _price_json(forecast.price),
        **{name: _interval_json(getattr(forecast, name)) for name in QUANTITIES},
    }


def _price_json(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {
        "input": float(price.input),
        "cached_input": float(price.cached_input),
        "output": float(price.output),
        "date": price.date,
        "source": price.source,
    }


def _interval_json(interval: Interval | None) -> dict[str, float | None] | None:
    return None if interval is None else asdict(interval)


def _forecast_row(forecast: Forecast) -> dict[str, Any]:
    return {
        "model": forecast.model,
        "owed": forecast.episodes,
        "basis": f"{forecast.pilots} pilots" if forecast.pilots else forecast.basis,
        "input tokens": _interval(forecast.input_tokens),
        "cached": _interval(forecast.cached_tokens),
        "output tokens": _interval(forecast.output_tokens),
        "USD": _cost(forecast),
    }


def _interval(interval: Interval | None, digits: int = 0, unknown: str = "–") -> str:
    return unknown if interval is None else _range(interval.low, interval.high, digits)


def _cost(forecast: Forecast) -> str:
    from study.steps.sweep.estimate import FREE

    if forecast.basis == FREE:
        return "no call is paid for"
    return _interval(forecast.cost_usd, 2, "unknown") if forecast.episodes else "–"


def _notes(made: Estimate) -> list[str]:
    """Notes on the numbers, a line each."""
    from study.steps.sweep.estimate import BOUNDS, LEVEL, total_usd

    lines = [
        f"intervals at {100 * LEVEL:.0f} %; what failed attempts took is counted in the pilots"
    ]
    for forecast in made.forecasts:
        model, price = forecast.model, forecast.price
        if forecast.basis == BOUNDS:
            lines.append(
                f"{model}: no two pilots of each stratum, so these are bounds from the limits, for "
                "one attempt at each episode; without `context` and `max_tokens` there is no upper "
                "one"
            )
        if price is not None:
            lines.append(f"{model}: priced as of {price.date} ({price.source})")
    lines += [
        f"{model.name}: its price is unknown; sweeping it needs {ALLOW}"
        for model in made.pricing.unknown
    ]
    total = total_usd(made.forecasts)
    return [*lines, "in all: " + ("unknown" if total is None else f"USD {_interval(total, 2)}")]

"""The command ``dosimeter sweep``, and what it says at its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from study.options import address_option, dirty_option, json_option, study_option
from study.printing import exit_by, print_json, print_line, print_note
from study.steps import pipeline
from study.steps.sweep.accounts import accounts_json, print_accounts
from study.steps.sweep.failing import Failing, address_of, print_failing
from study.steps.sweep.history import early_models
from study.steps.sweep.live import model_json, sweep_watch
from study.steps.sweep.preview import previews_of, print_previews
from study.steps.sweep.sweep import SweepRequest

if TYPE_CHECKING:
    from harness.sweep.leases import Progress
    from registry.ledger.records import ModelPin
    from study.steps.sweep.sweep import SweepOutcome
    from study.workspace.study import Study


class Workers(click.ParamType[tuple[int, int]]):
    """A number of workers, or the fewest and the most."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the fewest and the most."""
        numbers = re.fullmatch(r"([1-9]\d{0,3})(?:\.\.([1-9]\d{0,3}))?", value)
        if numbers is None or int(numbers[1]) > int(numbers[2] or numbers[1]):
            self.fail(f"{value!r} is no number of workers, and no range of them such as 2..40")
        return int(numbers[1]), int(numbers[2] or numbers[1])


@click.command()
@study_option
@click.option("--wave", required=True, type=click.IntRange(0), help="Which wave of study.yaml.")
@address_option
@click.option(
    "--workers",
    show_default="study.yaml's, else 1",
    type=Workers(),
    help="Number of workers, one for each machine; 2..40: as many as have work.",
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
        print_previews(previews_of(study, wave), as_json)
        return
    if estimate:
        from study.steps.sweep.estimate import estimate_wave, print_estimate

        print_estimate(estimate_wave(study, wave), as_json)
        return
    note_early(study, wave)
    pins = study.protocol.wave_models(wave)
    with sweep_watch(f"wave {wave}") as watch:
        outcome = pipeline.sweep(study, request, watch, watch.steps)
    if as_json:
        print_json(outcome_json(outcome, wave, pins))
    else:
        print_outcome(outcome, wave, pins)
    exit_by(outcome.closed is not None)


def note_early(study: Study, wave: int) -> None:
    """Print a note on models that will get no verdict. Raises StudyError for an unknown wave."""
    study.protocol.wave_models(wave)
    if early := early_models(study, wave):
        print_note(
            f"the public arm is not released: {', '.join(early)} will get no verdict at wave "
            f"{wave}; `dosimeter publish` comes first if one is wanted (docs/waves.md)"
        )


def outcome_json(outcome: SweepOutcome, wave: int, pins: Sequence[ModelPin]) -> dict[str, Any]:
    """Return the outcome of a sweep for ``--json``."""
    progress, addresses = outcome.progress, {pin.name: address_of(pin) for pin in pins}
    counts = {"exhausted": 0, "lost": 0, "held": 0}
    return {
        "wave": wave,
        "closed": None if outcome.closed is None else asdict(outcome.closed),
        **{name: getattr(progress, name, none) for name, none in counts.items()},
        "failures": {} if progress is None else dict(progress.failures),
        "failing": [
            asdict(failing) | {"address": addresses[failing.model]}
            for failing in _failing(progress)
        ],
        "stopped": [] if progress is None else [each.model for each in progress.stopped],
        "budget": [] if progress is None else accounts_json(progress.accounts),
        "models": [] if progress is None else [model_json(model) for model in progress.models],
    }


def _failing(progress: Progress | None) -> list[Failing]:
    """Return the failures of each model by class."""
    return [
        Failing(model.model, failed.error_class, failed.attempts, failed.cells)
        for model in (() if progress is None else progress.models)
        for failed in model.failures
    ]


def print_outcome(outcome: SweepOutcome, wave: int, pins: Sequence[ModelPin]) -> None:
    """Print whether a wave is closed; if not, the reason; and what has failed."""
    closed, progress = outcome.closed, outcome.progress
    if progress is not None and progress.lost:
        print_line(
            f"{_episodes(progress.lost)} lost the worker: of each, at most one reply was on its "
            "way and was paid for twice"
        )
    if closed is not None:
        scored = f"{closed.finished} of {closed.owed} episodes scored"
        print_line(f"wave {wave} is closed: {scored}, {closed.missing} missing")
    elif progress is not None:
        print_line(_why_open(progress, wave), f"wave {wave} stays open:", "yellow")
    if progress is not None and (closed is not None or progress.held):
        print_accounts(progress.accounts)
    print_failing(pins, _failing(progress))


def _why_open(progress: Progress, wave: int) -> str:
    """Return the reason why a wave stays open, and what to do."""
    if progress.fenced:
        return "another sweep of it has taken over; this one buys nothing more."
    if progress.asked.value == "stop" and not progress.done:
        return (
            f"stopped by `dosimeter wave stop {wave}`. Finished work is kept; run this again to "
            "continue."
        )
    if progress.held:
        return (
            f"its budget does not pay for {_episodes(progress.held)} still owed. Raise "
            "`budget:` in study.yaml and run this again; no request is paid for twice."
        )
    if progress.stopped:
        owed = ", ".join(f"{_episodes(m.waiting)} of {m.model}" for m in progress.stopped)
        return (
            f"still owed are {owed}: the key was refused. Put a valid one into the variable that "
            "the table names and run this again; no request is paid for twice."
        )
    if not progress.done:
        return "its workers were asked to end. Finished work is kept; run this again to continue."
    return (
        f"{_episodes(progress.exhausted)} failed on every attempt. Run this again to retry, or "
        "add --close-missing to record them as missing."
    )


def _episodes(count: int) -> str:
    return "1 episode" if count == 1 else f"{count} episodes"

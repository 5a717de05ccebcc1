"""The command `probe`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from registry.provenance import utc_now
from study.extras.probe.probe import ProbedWave, ProbeOutcome, ProbeRequest, probe_wave
from study.options import json_option, models_option, study_option, unknown_price_option
from study.printing import exit_by, print_json, print_records, progress_watch
from study.steps.sweep.accounts import accounts_json, count_failures, print_accounts
from study.steps.sweep.failing import Failing, print_failing
from study.workspace.study import Study


@click.command()
@study_option
@click.option("--wave", required=True, type=click.IntRange(0), help="The wave of the models.")
@models_option("the wave")
@unknown_price_option("Ask models")
@click.option(
    "--markers", is_flag=True, help="Ask for the marker of each title instead of the questions."
)
@json_option
def probe(study: Study, wave: int, models: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Ask models from memory: one question on each instance, without tools or input files.

    Shows exposure if inflation is too small to see. The question is the task as it was set, with
    names and SHA-256 of its files. Both arms are treated alike; `dosimeter report` distinguishes
    them. Interrupt it at will; run it again to resume. Exits with 1 while probes are owed because a
    provider failed or the budget does not pay for them.

    With --markers, the one question is which of the eight markers belongs to an instance's title.
    Chance is 1/8 whatever the model's skill, so that the report's test of exposure is exact.

    \b
    Examples:
      dosimeter probe --wave 1
      dosimeter probe --wave 1 --markers
      dosimeter probe --wave 1 --model new-one --json | jq '.models[] | {model, done, owed}'
    """
    request = ProbeRequest(wave, tuple(dict.fromkeys(models)), **options)
    with progress_watch("probing") as watch:
        made = probe_wave(study, request, watch, utc_now)
    if as_json:
        print_json(
            {
                "wave": wave,
                "models": [asdict(outcome) for outcome in made.models],
                "skipped": list(made.skipped),
                "strata_without_questions": list(made.strata),
                "notes": list(made.notes),
                "budget": accounts_json(made.accounts),
            }
        )
    else:
        _print(made)
        failing = [
            Failing(outcome.model, failure, times)
            for outcome in made.models
            for failure, times in outcome.failures
            if failure.startswith("provider:")
        ]
        print_failing(study.protocol.wave_models(wave), failing)
    exit_by(made.complete)


def _print(made: ProbedWave) -> None:
    if made.models:
        print_records([_row(outcome) for outcome in made.models], title="Probes from memory")
    lines = [*made.notes]
    lines += [
        f"{name}: an agent behind a server, with tools of its own; not asked"
        for name in made.skipped
    ]
    lines += [
        f"{stratum}: no question can be made of it without its data" for stratum in made.strata
    ]
    for line in lines:
        click.echo(line)
    print_accounts(made.accounts, made.over_budget)


def _row(outcome: ProbeOutcome) -> dict[str, Any]:
    mean, cost = outcome.mean_score, outcome.cost_usd
    return {
        "model": outcome.model,
        "owed": outcome.owed,
        "done": outcome.done,
        "now": outcome.fresh,
        "right, both arms": "–" if mean is None else f"{100 * mean:.1f} %",
        "failures": count_failures(outcome.failures),
        "USD": "–" if cost is None else f"{cost:.4f}",
    }

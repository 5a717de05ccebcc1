"""The command `probe`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study.cli.options import json_option, study_option

if TYPE_CHECKING:
    from study.probing import ProbedWave, ProbeOutcome


@click.command()
@study_option
@click.option("--wave", required=True, type=click.IntRange(0), help="The wave of the models.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="Of the wave; more than once for more. Default: all.",
)
@click.option(
    "--parallel", type=click.IntRange(1, 256), default=4, show_default=True, help="Calls at once."
)
@click.option(
    "--allow-unknown-price",
    is_flag=True,
    help="Ask models whose price is not in the price file; what they cost stays unknown.",
)
@click.option(
    "--texts", is_flag=True, help="Also ask models with log-probabilities how likely texts are."
)
@click.option("--burn", is_flag=True, help="Send private text even to a provider that may keep it.")
@json_option
def probe(
    folder: Path,
    wave: int,
    models: tuple[str, ...],
    parallel: int,
    allow_unknown_price: bool,
    texts: bool,
    burn: bool,
    as_json: bool,
) -> None:
    """Ask models from memory: one question on each instance, without tools or input files.

    Shows exposure if inflation is too small to see. The question is the task as it was set, with
    names and SHA-256 of its files. Both arms are treated alike; `dosimeter report` distinguishes
    them. Interrupt it at will; run it again to resume. Exits with 1 while probes are owed because a
    provider failed, and with 3 if the budget does not pay for them.

    With --texts, models with log-probabilities also receive what a release shows of each instance,
    private ones too; without --burn this is refused for providers that do not have
    `retention: none` in study.yaml.

    \b
    Examples:
      dosimeter probe --wave 1
      dosimeter probe --wave 1 --model new-one --json | jq '.models[] | {model, done, owed}'
    """
    from registry.provenance import utc_now
    from study.cli.output import accounts_json, print_json, progress_watch
    from study.probing import ProbeRequest, probe_wave
    from study.workspace import open_study

    named = tuple(dict.fromkeys(models))
    request = ProbeRequest(wave, named, parallel, allow_unknown_price, texts, burn)
    with progress_watch("probing") as watch:
        made = probe_wave(open_study(folder), request, watch, utc_now)
    if as_json:
        print_json(
            {
                "wave": wave,
                "models": [asdict(each) for each in made.models],
                "skipped": list(made.skipped),
                "strata_without_questions": list(made.strata),
                "texts": [asdict(each) for each in made.texts],
                "notes": list(made.notes),
                "strata_without_texts": list(made.plain),
                "budget": accounts_json(made.accounts),
            }
        )
    else:
        _print(made)
    sys.exit(0 if made.complete else 3 if made.over_budget else 1)


def _print(made: ProbedWave) -> None:
    from study.cli.output import print_accounts, print_records

    rows = [_row(outcome) for outcome in made.models]
    if rows:
        print_records(rows, False, title="Probes from memory")
    texts = [_row(outcome) for outcome in made.texts]
    for row in texts:
        del row["right, both arms"]
    if texts:
        print_records(texts, False, title="How likely each text is")
    for each in made.texts:
        if each.note:
            click.echo(f"{each.model}: {each.note}")
    for note in made.notes:
        click.echo(note)
    for stratum in made.plain:
        click.echo(f"{stratum}: its instances have no text of their own")
    for name in made.skipped:
        click.echo(f"{name}: an agent behind a server, with tools of its own; not asked")
    for stratum in made.strata:
        click.echo(f"{stratum}: no question can be made of it without its data")
    print_accounts(made.accounts)
    if made.over_budget:
        click.echo(
            "The budget does not pay for the rest. Raise `budget:` in study.yaml and run this "
            "again; no request is paid for twice."
        )


def _row(outcome: ProbeOutcome) -> dict[str, Any]:
    mean, cost = outcome.mean_score, outcome.cost_usd
    return {
        "model": outcome.model,
        "owed": outcome.owed,
        "done": outcome.done,
        "now": outcome.fresh,
        "right, both arms": "–" if mean is None else f"{100 * mean:.1f} %",
        "failures": ", ".join(f"{count} × {name}" for name, count in outcome.failures),
        "USD": "–" if cost is None else f"{cost:.4f}",
    }

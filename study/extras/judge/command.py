"""The commands of ``dosimeter judge``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from registry.provenance import utc_now
from study.extras.judge.check import RATES, check_judge
from study.extras.judge.grade import GradeOutcome, GradeRequest, grade_study
from study.options import folder_option, json_option, study_option, unknown_price_option
from study.printing import exit_by, print_json, print_records, progress_watch
from study.steps.sweep.accounts import accounts_json, count_failures, print_accounts
from study.workspace.study import Study

_VERDICTS = ("verdicts", "reversed")  # in the file of a check only
_COUNTS = ("owed", "graded", "fresh", "criteria", "ungraded", "kappa")
_SHOWN = ("judge", *_COUNTS, "failures", "failed_tries", "cost_usd")  # of a grading, in a table


@click.group()
def judge() -> None:
    """Have LLM judges grade episodes too, and measure how far they can be trusted."""


@judge.command("grade")
@study_option
@click.option(
    "--judge",
    "judges",
    multiple=True,
    required=True,
    help="Of study.yaml; more than once for more.",
)
@click.option("--wave", type=click.IntRange(0), help="Default: every wave that was begun.")
@click.option(
    "--again-at",
    show_default="no second grading",
    type=click.IntRange(1),
    metavar="WAVE",
    help="Grade the first wave's answers once more, for the look at this later wave, and nothing "
    "else: the report shows whether the judge has drifted.",
)
@unknown_price_option("Ask judges")
@json_option
def grade(study: Study, judges: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Have judges grade the stored episodes, in addition to exact grading. No episode is run again.

    Interrupt it at will; run it again to resume. No request is paid for twice. Exits with 1 while
    episodes are ungraded because a provider failed or the budget in study.yaml does not pay for
    them.

    \b
    Examples:
      dosimeter judge grade --judge haiku
      dosimeter judge grade --judge haiku --judge flash --wave 0 --json
      dosimeter judge grade --judge flash --again-at 3
    """
    request = GradeRequest(tuple(dict.fromkeys(judges)), **options)
    if request.wave is not None and request.again_at is not None:
        raise click.UsageError("--again-at grades the first wave's answers: leave --wave out")
    with progress_watch("grading") as watch:
        outcome = grade_study(study, request, watch, utc_now)
    if as_json:
        budget = [{"wave": wave, **row} for wave, a in outcome.accounts for row in accounts_json(a)]
        print_json(
            {
                "judges": [asdict(judge) for judge in outcome.judges],
                "again_at": outcome.again_at,
                "budget": budget,
            }
        )
    else:
        _print_grading(outcome)
    exit_by(outcome.complete)


def _print_grading(outcome: GradeOutcome) -> None:
    rows = [
        {name: getattr(judge, name) for name in _SHOWN}
        | {name: count_failures(getattr(judge, name)) for name in ("failures", "failed_tries")}
        for judge in outcome.judges
    ]
    print_records(rows)
    for judge in outcome.judges:
        recorded = f"{judge.judge}: the ledger records that"
        if judge.recorded and outcome.again_at is not None:
            at = f"at wave {outcome.again_at}"
            click.echo(f"{recorded} the first wave's answers are graded again {at}")
        elif judge.recorded:
            click.echo(f"{recorded} wave {', '.join(map(str, judge.recorded))} is graded whole")
        for wave in judge.unpinned:
            click.echo(
                f"{judge.judge}: wave {wave} was begun without naming this judge; it is recorded "
                "as chosen afterwards"
            )
    accounts = [account for _, accounts in outcome.accounts for account in accounts]
    print_accounts(accounts, outcome.over_budget)


@judge.command("check")
@click.argument("name")
@folder_option
@click.option(
    "--criteria",
    type=click.IntRange(1, 100_000),
    default=400,
    help="Minimum number of criteria, over all tasks and answer styles.",
)
@unknown_price_option("Ask judges")
@json_option
def check(study: Study, name: str, as_json: bool, **options: Any) -> None:
    """Measure the judge NAME on fresh answers with known verdicts.

    Writes judges/NAME.json in the study's folder, keeps the result in the store and records it in
    the ledger. Run again after a failure, it resumes. Exits with 1 if the budget in study.yaml does
    not pay for it.

    \b
    Examples:
      dosimeter judge check haiku
      dosimeter judge check haiku --criteria 2000 --json | jq .kappa
    """
    with progress_watch("checking") as watch:
        body, path = check_judge(study, name, watch, utc_now, **options)
    if as_json:
        print_json({key: value for key, value in body.items() if key not in _VERDICTS})
    else:
        _print_check(body, path)


def _print_check(body: dict[str, Any], path: Path) -> None:
    rows = [
        {
            "group": f"{group['by']}: {group['group']}" if group["by"] else "all",
            **{name: _share(group[name]) for name in RATES},
        }
        for group in body["accuracy"]
    ]
    print_records(rows, title=f"Judge {body['judge']['name']}: {body['criteria']} criteria")
    kappa = body["kappa"]
    click.echo(f"Cohen's kappa with the truth: {'unknown' if kappa is None else f'{kappa:.3f}'}")
    if body["failed_tries"]:
        click.echo(f"requests that failed: {count_failures(tuple(body['failed_tries'].items()))}")
    if body["same_family"]:
        click.echo(
            f"of the same family as {', '.join(body['same_family'])}: a judge may favour its own"
        )
    click.echo(f"wrote {path}")


def _share(rate: dict[str, Any]) -> str:
    if rate["rate"] is None:
        return "–"
    low, high = rate["interval"]
    shown = f"{100 * rate['rate']:.1f} % ({100 * low:.1f}…{100 * high:.1f})"
    return f"{shown} of {rate['criteria']}"

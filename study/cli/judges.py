"""``dosimeter grade`` and the commands of ``dosimeter judge``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study.cli.options import json_option, study_option

if TYPE_CHECKING:
    from study.judging import GradeOutcome

unknown_price_option = click.option(
    "--allow-unknown-price",
    is_flag=True,
    help="Ask judges whose price is not in the price file; what they cost stays unknown.",
)


@click.command()
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
    type=click.IntRange(1),
    metavar="WAVE",
    help="Grade the first wave's answers once more, for the look at this later wave, and nothing "
    "else: the report shows whether the judge has drifted.",
)
@click.option(
    "--parallel", type=click.IntRange(1, 256), default=4, show_default=True, help="Calls at once."
)
@unknown_price_option
@json_option
def grade(
    folder: Path,
    judges: tuple[str, ...],
    wave: int | None,
    again_at: int | None,
    parallel: int,
    allow_unknown_price: bool,
    as_json: bool,
) -> None:
    """Have judges grade the stored episodes, in addition to exact grading. No episode is run again.

    Interrupt it at will; run it again to resume. No request is paid for twice. Exits with 1 while
    episodes are ungraded because a provider failed, and with 3 if the budget in study.yaml does not
    pay for them.

    \b
    Examples:
      dosimeter grade --judge haiku
      dosimeter grade --judge haiku --judge flash --wave 0 --json
      dosimeter grade --judge flash --again-at 3
    """
    if wave is not None and again_at is not None:
        raise click.UsageError("--again-at grades the first wave's answers: leave --wave out")
    from registry.provenance import utc_now
    from study.cli.output import accounts_json, print_json, progress_watch
    from study.judging import GradeRequest, grade_study
    from study.workspace import open_study

    named = tuple(dict.fromkeys(judges))
    request = GradeRequest(named, wave, parallel, allow_unknown_price, again_at)
    with progress_watch("grading") as watch:
        outcome = grade_study(open_study(folder), request, watch, utc_now)
    if as_json:
        budget = [{"wave": wave, **row} for wave, a in outcome.accounts for row in accounts_json(a)]
        print_json(
            {
                "judges": [asdict(each) for each in outcome.judges],
                "alpha": outcome.alpha,
                "again_at": outcome.again_at,
                "budget": budget,
            }
        )
    else:
        _print_grading(outcome)
    sys.exit(0 if outcome.complete else 3 if outcome.over_budget else 1)


def _print_grading(outcome: GradeOutcome) -> None:
    from study.cli.output import print_accounts, print_records

    counted = ("failures", "failed_tries")
    rows = [
        {**asdict(each), **{name: _spell(getattr(each, name)) for name in counted}}
        for each in outcome.judges
    ]
    hidden = ("digest", "recorded", "unpinned")
    print_records([{k: v for k, v in row.items() if k not in hidden} for row in rows], False)
    if outcome.alpha is not None:
        click.echo(f"Krippendorff's alpha between the judges: {outcome.alpha:.3f}")
    for each in outcome.judges:
        if each.recorded and outcome.again_at is not None:
            click.echo(
                f"{each.judge}: the ledger records that the first wave's answers are graded again "
                f"at wave {outcome.again_at}"
            )
        elif each.recorded:
            waves = ", ".join(map(str, each.recorded))
            click.echo(f"{each.judge}: the ledger records that wave {waves} is graded whole")
        for wave in each.unpinned:
            click.echo(
                f"{each.judge}: wave {wave} was begun without naming this judge; it is recorded "
                "as chosen afterwards"
            )
    for _, accounts in outcome.accounts:
        print_accounts(accounts)
    if outcome.over_budget:
        click.echo(
            "The budget does not pay for the rest. Raise `budget:` in study.yaml and run this "
            "again; no request is paid for twice."
        )


@click.group()
def judge() -> None:
    """The judges of a study: measure how far they can be trusted."""


@judge.command("check")
@click.argument("name")
@study_option
@click.option(
    "--criteria",
    type=click.IntRange(1, 100_000),
    default=400,
    show_default=True,
    help="Minimum number of criteria, over all tasks and answer styles.",
)
@click.option(
    "--parallel", type=click.IntRange(1, 256), default=4, show_default=True, help="Calls at once."
)
@unknown_price_option
@json_option
def check(
    name: str,
    folder: Path,
    criteria: int,
    parallel: int,
    allow_unknown_price: bool,
    as_json: bool,
) -> None:
    """Measure the judge NAME on fresh answers with known verdicts.

    Writes judges/NAME.json in the study's folder, keeps the result in the store and records it in
    the ledger. Run again after a failure, it resumes. Exits with 3 if the budget in study.yaml does
    not pay for it.

    \b
    Examples:
      dosimeter judge check haiku
      dosimeter judge check haiku --criteria 2000 --json | jq .kappa
    """
    from registry.provenance import utc_now
    from study.cli.output import print_json, progress_watch
    from study.judging import BudgetSpentError, CheckRequest, check_judge
    from study.workspace import open_study

    request = CheckRequest(name, criteria, parallel, allow_unknown_price)
    try:
        with progress_watch("checking") as watch:
            body, path = check_judge(open_study(folder), request, watch, utc_now)
    except BudgetSpentError as spent:
        click.echo(str(spent), err=True)
        sys.exit(3)
    if as_json:
        print_json({key: value for key, value in body.items() if key != "verdicts"})
    else:
        _print_check(body, path)


def _print_check(body: dict[str, Any], path: Path) -> None:
    from study.cli.output import print_records

    rows = [
        {
            "group": f"{each['by']}: {each['group']}" if each["by"] else "all",
            "sensitivity": _share(each["sensitivity"]),
            "specificity": _share(each["specificity"]),
            "ungraded": each["sensitivity"]["ungraded"] + each["specificity"]["ungraded"],
        }
        for each in body["accuracy"]
    ]
    print_records(rows, False, title=f"Judge {body['judge']['name']}: {body['criteria']} criteria")
    agreement = [("the exact grader", body["kappa"]), *body["others"].items()]
    for other, kappa in agreement:
        click.echo(f"Cohen's kappa with {other}: {'unknown' if kappa is None else f'{kappa:.3f}'}")
    if body["alpha"] is not None:
        click.echo(f"Krippendorff's alpha of all judges on these sheets: {body['alpha']:.3f}")
    if body["failed_tries"]:
        click.echo(f"requests that failed: {_spell(tuple(body['failed_tries'].items()))}")
    if body["same_family"]:
        click.echo(
            f"of the same family as {', '.join(body['same_family'])}: a judge may favour its own"
        )
    if body["family_bias"] is not None:
        bias = body["family_bias"]
        low, high = bias["interval"]
        click.echo(
            f"bias to its own family: {100 * bias['difference']:+.1f} points "
            f"({100 * low:+.1f}…{100 * high:+.1f}), {bias['instances']} instances"
        )
    click.echo(f"wrote {path}")


def _share(rate: dict[str, Any]) -> str:
    if rate["rate"] is None:
        return "–"
    low, high = rate["interval"]
    shown = f"{100 * rate['rate']:.1f} % ({100 * low:.1f}…{100 * high:.1f})"
    return f"{shown} of {rate['criteria']}"


def _spell(failures: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in failures)

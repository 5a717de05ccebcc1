"""``dosimeter judge check``: measures a judge on answer sheets with known verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.judge.error_rates import Judged, cohen_kappa, measure_judge, measure_positions
from analysis.stats.proportions import Rate
from generators.grading.rubric import Verdicts
from harness.judge.answer_sheets import Sheet, make_sheets
from harness.judge.grade import build_judge
from harness.judge.judge import Judge, Submission, judge_criteria, judging_bound
from harness.spending.purchases import CallKind, ReplyStore
from registry.canonical import digest_value
from registry.files import write_whole
from registry.ledger.records import JudgePin, pin_digest, record_body
from study.errors import WorkOwedError
from study.extras.judge.records import judge_pin, record_checked
from study.protocol.protocol import relatives_of
from study.steps.sweep.spending import (
    OVER_BUDGET,
    Caller,
    CallResult,
    lock_budget,
    open_budget,
    price_pins,
    sum_calls,
)
from study.workspace.setup import Watch
from study.workspace.study import Study

FOLDER = "judges"  # of the study's folder; a file a judge
FORMAT = "dosimeter/judge-check/3"
_REVERSED = "/reversed"  # ends the name of a sheet that is asked in reverse order
LEAST = 400  # criteria that a plan requires
RATES = ("sensitivity", "specificity", "parsed")


def check_judge(
    study: Study,
    name: str,
    watch: Watch,
    now: Callable[[], str],
    criteria: int = LEAST,
    allow_unknown_price: bool = False,
) -> tuple[dict[str, Any], Path]:
    """Measure a judge on sheets from the study's tasks, with at least so many criteria. Returns the
    result and its file in the study's folder; the store keeps the measurement and the ledger
    promises it.

    Replies are stored as in grading: if killed, it resumes when called again. Raises
    WorkOwedError if the provider fails or the budget is spent, HarnessError, RegistryError.
    """
    pin = judge_pin(study, name)
    pricing = price_pins(study, [pin], allow_unknown_price)
    strata = [(task.family, task.version, task.difficulty) for task in study.protocol.tasks]
    sheets = make_sheets(strata, criteria, study.protocol.catalog)
    backwards = [_reverse(sheet) for sheet in sheets if len(sheet.parts) > 1]
    judge = build_judge(pin, str(study.folder.resolve()))
    with ExitStack() as stack:
        stack.callback(judge.close)
        lock_budget(study, (), stack)
        budget = open_budget(study, None, pricing, CallKind.JUDGE, [pin], lambda _: False, stack)
        price = pricing.price_of(pin.name)
        caller = Caller(study, CallKind.JUDGE, pin, None, price, budget=budget)
        verdicts, failed = _grade_sheets(judge, caller, (*sheets, *backwards), watch)
        measured = _measured(pin, sheets, backwards, verdicts)
        record_checked(study, pin, measured, now)
    relatives = list(relatives_of(study.protocol, name))
    body = {**measured, "same_family": relatives, "failed_tries": failed}
    path = study.folder / FOLDER / f"{pin.name}.json"
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return body, path


def _reverse(sheet: Sheet) -> Sheet:
    """The same sheet with its parts in reverse order."""
    return replace(
        sheet, id=sheet.id + _REVERSED, parts=sheet.parts[::-1], truths=sheet.truths[::-1]
    )


def _grade_sheets(
    judge: Judge, caller: Caller, sheets: Sequence[Sheet], watch: Watch
) -> tuple[dict[str, Verdicts], dict[str, int]]:
    """Return the verdicts on each sheet by its id, and the failed requests by class."""
    name, price = judge.pin.name, caller.price
    verdicts: dict[str, Verdicts] = {}

    def grade(sheet: Sheet) -> CallResult:
        submission, parts = Submission(sheet.task, sheet.answer), sheet.parts
        bound = judging_bound(judge, submission, parts, price) if price else None

        def decide(replies: ReplyStore) -> None:
            verdicts[sheet.id] = judge_criteria(judge, submission, parts, replies.judge_call)

        return caller.pay(sheet.id, bound, decide)

    results: list[CallResult] = []
    for result in caller.call_each(grade, sheets):
        if result.failure == OVER_BUDGET:
            raise WorkOwedError(
                f"judge {name!r}: the budget does not pay for the rest of its check; raise "
                "`budget:` in study.yaml and run this again: no request is paid for twice"
            )
        if result.failure:
            raise WorkOwedError(
                f"judge {name!r}: {result.error or result.failure}; run this again to go on where "
                "it stopped"
            )
        results.append(result)
        watch(f"judge {name}", len(results), len(sheets))
    return verdicts, dict(sum_calls(results, False).failed_tries)


def _measured(
    pin: JudgePin,
    sheets: Sequence[Sheet],
    backwards: Sequence[Sheet],
    verdicts: Mapping[str, Verdicts],
) -> dict[str, Any]:
    """Return the measurement on the sheets alone, which the store keeps unencrypted."""
    calls = {sheet.id: _judged(sheet, verdicts[sheet.id]) for sheet in sheets}
    judged = [row for call in calls.values() for row in call]
    positions = measure_positions(
        [calls[sheet.id] for sheet in sheets if len(sheet.parts) > 1],
        [_judged(sheet, verdicts[sheet.id]) for sheet in backwards],
    )
    decided = [row.verdict for row in judged]
    names = _names(sheets)
    measured: dict[str, Any] = {
        "format": FORMAT,
        "judge": record_body(pin),
        "digest": pin_digest(pin),
        "sheets": _sheets_digest(sheets),
        "criteria": len(judged),
        "unparsed": decided.count(None),
        "accuracy": [
            {
                "by": accuracy.by,
                "group": accuracy.group,
                **{name: _rate(getattr(accuracy, name)) for name in RATES},
            }
            for accuracy in (*measure_judge(judged), *positions)
        ],
        "kappa": cohen_kappa([row.truth for row in judged], decided),
        "verdicts": [
            {"sheet": sheet, "criterion": criterion, "truth": row.truth, "verdict": row.verdict}
            for (sheet, criterion, _), row in zip(names, judged, strict=True)
        ],
        "reversed": [
            {"sheet": sheet.id, "verdicts": list(verdicts[sheet.id])} for sheet in backwards
        ],
    }
    # Floats are rounded, so that they do not depend on the order of a summation.
    rounded: dict[str, Any] = json.loads(
        json.dumps(measured), parse_float=lambda text: round(float(text), 9)
    )
    return rounded


def _names(sheets: Iterable[Sheet]) -> list[list[str]]:
    return [[sheet.id, part.id, part.text] for sheet in sheets for part in sheet.parts]


def _sheets_digest(sheets: Sequence[Sheet]) -> str:
    """Return the digest of the sheets: judges are compared on equal ones only."""
    return digest_value([[sheet.answer for sheet in sheets], _names(sheets)])


def _judged(sheet: Sheet, verdicts: Verdicts) -> list[Judged]:
    name = sheet.id.removesuffix(_REVERSED)  # the same answer: what is right of both goes together
    return [
        Judged(name, sheet.stratum, part.dimension, sheet.style, truth, verdict=verdict)
        for part, truth, verdict in zip(sheet.parts, sheet.truths, verdicts, strict=True)
    ]


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "rate": rate.mean,
        "interval": rate.interval,
        "criteria": rate.answers,
        "sheets": rate.instances,
    }

"""``dosimeter judge check``: a judge measured on answer sheets whose truth is known."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from analysis.files import write_whole
from analysis.judges import (
    FamilyBias,
    Judged,
    cohen_kappa,
    family_bias,
    krippendorff_alpha,
    measure_judge,
)
from analysis.stats import Rate
from harness.episode import Grade
from harness.errors import AttemptFailed
from harness.judging import (
    Judge,
    Sheet,
    StoreReplies,
    Submission,
    build_judge,
    judge_criteria,
    judgement_bound,
    make_sheets,
    purpose_of,
    read_grade,
)
from harness.spending import JudgePurse, Price, spend_on
from harness.store_keys import result_key
from harness.sweep import read_result
from registry.canonical import digest_value
from registry.ledger import JudgePin, record_body, record_digest
from study.errors import StudyError
from study.judging.grades import judge_pin, results_there
from study.judging.records import record_checked
from study.protocol import relatives_of
from study.spending import check_prices, judge_money, open_judge_purse
from study.workspace import Study, exclusive

FOLDER = "judges"  # of the study's folder; a file a judge
FORMAT = "dosimeter/judge-check/2"
LEAST = 400  # criteria that a plan may rely on (spec/statistics.md, C3)
Watch = Callable[[str, int, int], None]  # what, done, of
Verdicts = tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class CheckRequest:
    judge: str
    criteria: int = LEAST
    parallel: int = 4  # sheets at once
    allow_unknown_price: bool = False


class BudgetSpentError(StudyError):
    """The budget does not pay for the rest of a check."""


@dataclass(frozen=True, slots=True)
class _Bench:
    """A judge, measured."""

    study: Study
    judge: Judge
    price: Price | None
    purse: JudgePurse | None
    identities: tuple[str, ...] = field(repr=False)
    failed: Counter[str] = field(default_factory=Counter)  # requests, by class
    lock: threading.Lock = field(default_factory=threading.Lock)


def check_judge(
    study: Study, request: CheckRequest, watch: Watch, now: Callable[[], str]
) -> tuple[dict[str, Any], Path]:
    """Measure a judge on sheets from the study's tasks; the result, and its file in the study.
    What was measured is kept in the store and promised in the ledger.

    Replies are kept as those of grading are: killed, it goes on where it was. Raises StudyError
    where the provider fails, BudgetSpentError, HarnessError, RegistryError.
    """
    pin = judge_pin(study, request.judge)
    money = check_prices(
        judge_money(study.folder, study.protocol, [pin], request.allow_unknown_price), study.folder
    )
    strata = [(task.family, task.version, task.difficulty) for task in study.protocol.tasks]
    sheets = make_sheets(strata, request.criteria, study.protocol.catalog)
    judge = build_judge(pin, str(study.folder.resolve()))
    with ExitStack() as stack:
        stack.callback(judge.close)
        stack.enter_context(
            exclusive(study.folder / ".grade.lock", "another grading of this study")
        )
        purse = open_judge_purse(study, None, money, [pin], {judge.digest: ()})
        bench = _Bench(study, judge, money.price_of(pin.name), purse, study.identities())
        verdicts = _grade_sheets(sheets, partial(_grade_sheet, bench), request, watch)
        kept = _measured(pin, sheets, verdicts)
        record_checked(study, pin, kept, now)
    body = {**kept, **_beside(study, request.judge, sheets, verdicts)}
    body["failed_tries"] = dict(sorted(bench.failed.items()))
    path = study.folder / FOLDER / f"{pin.name}.json"
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return body, path


def _grade_sheet(bench: _Bench, sheet: Sheet) -> Verdicts:
    judge, name = bench.judge, bench.judge.pin.name
    replies = StoreReplies(
        bench.study.store, judge.digest, bench.study.recipients(), bench.identities,
        purpose_of(judge.pin, episode=sheet.id),
    )  # fmt: skip
    submission = Submission(sheet.task, sheet.answer)
    if bench.purse:
        price = bench.price
        bound = judgement_bound(judge, submission, sheet.criteria, price) if price else None
        if not bench.purse.take(name, sheet.id, bound):
            raise BudgetSpentError(
                f"judge {name!r}: the budget does not pay for the rest of its check; raise "
                "`budget:` in study.yaml and run this again: nothing is bought twice"
            )
    done = False
    try:
        verdicts = judge_criteria(judge, submission, sheet.criteria, replies)
        done = True
        return verdicts
    finally:
        with bench.lock:
            bench.failed.update(replies.failed)
        if bench.purse:
            bench.purse.settle(name, sheet.id, spend_on(replies.bought, bench.price), done)


def _grade_sheets(
    sheets: Sequence[Sheet],
    grade: Callable[[Sheet], Verdicts],
    request: CheckRequest,
    watch: Watch,
) -> list[Verdicts]:
    with ThreadPoolExecutor(request.parallel, thread_name_prefix="judge") as pool:
        jobs = [pool.submit(grade, sheet) for sheet in sheets]
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                watch(f"judge {request.judge}", done, len(jobs))
        except BaseException as error:
            pool.shutdown(cancel_futures=True)
            if not isinstance(error, AttemptFailed):
                raise
            raise StudyError(
                f"judge {request.judge!r}: {error}; run this again to go on where it stopped"
            ) from None
        return [job.result() for job in jobs]


def _measured(
    pin: JudgePin, sheets: Sequence[Sheet], verdicts: Sequence[Verdicts]
) -> dict[str, Any]:
    """What the sheets alone tell: it is kept in the store in plain."""
    judged = list(_judged(sheets, verdicts))
    said = [each.verdict for each in judged]
    names = _names(sheets)
    measured: dict[str, Any] = {
        "format": FORMAT,
        "judge": record_body(pin),
        "digest": record_digest(pin),
        "sheets": _asked(sheets),
        "criteria": len(judged),
        "ungraded": said.count(None),
        "accuracy": [
            {
                "by": each.by,
                "group": each.group,
                "sensitivity": _rate(each.sensitivity),
                "specificity": _rate(each.specificity),
            }
            for each in measure_judge(judged)
        ],
        "kappa": cohen_kappa([each.truth for each in judged], said),
        "verdicts": [
            {"sheet": sheet, "criterion": criterion, "truth": each.truth, "verdict": each.verdict}
            for (sheet, criterion, _), each in zip(names, judged, strict=True)
        ],
    }
    rounded: dict[str, Any] = _rounded(measured)
    return rounded


def _rounded(value: Any) -> Any:
    """Floats to what does not hang on the order of a summation."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return round(value, 9) if isinstance(value, float) else value


def _names(sheets: Iterable[Sheet]) -> list[list[str]]:
    return [[sheet.id, each.id, each.text] for sheet in sheets for each in sheet.criteria]


def _asked(sheets: Sequence[Sheet]) -> str:
    """A digest of what was asked: judges of one such are compared on the same things."""
    return digest_value([[sheet.answer for sheet in sheets], _names(sheets)])


def _beside(
    study: Study, name: str, sheets: Sequence[Sheet], verdicts: Sequence[Verdicts]
) -> dict[str, Any]:
    """How it agrees with the study's other judges, and treats its own family: the latter rests on
    episodes of the study, and stays in the study's folder."""
    said = [verdict for each in verdicts for verdict in each]
    others = _others(study, name, _asked(sheets))
    bias = _bias(study, name)
    return {
        "others": {other: cohen_kappa(said, theirs) for other, theirs in others.items()},
        "alpha": krippendorff_alpha([said, *others.values()]) if others else None,
        "same_family": list(relatives_of(study.protocol, name)),
        "family_bias": None if bias is None else asdict(bias),
    }


def _judged(sheets: Sequence[Sheet], verdicts: Sequence[Verdicts]) -> Iterator[Judged]:
    for sheet, said in zip(sheets, verdicts, strict=True):
        for criterion, truth, verdict in zip(sheet.criteria, sheet.truths, said, strict=True):
            yield Judged(sheet.id, sheet.stratum, criterion.dimension, sheet.style, truth, verdict)


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "rate": rate.mean,
        "interval": rate.interval,
        "criteria": rate.answers,
        "ungraded": rate.missing,
        "sheets": rate.instances,
    }


def _others(study: Study, name: str, asked: str) -> dict[str, list[bool | None]]:
    """What the study's other judges said of the same sheets, by name."""
    found = {}
    for pin in study.protocol.judges:
        path = study.folder / FOLDER / f"{pin.name}.json"
        if pin.name == name or not path.is_file():
            continue
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            if (body["digest"], body["sheets"]) == (record_digest(pin), asked):
                found[pin.name] = [each["verdict"] for each in body["verdicts"]]
        except (ValueError, KeyError, TypeError):
            raise StudyError(
                f"{path}: not the result of a judge check; run `dosimeter judge check {pin.name}`"
            ) from None
    return found


def _bias(study: Study, name: str) -> FamilyBias | None:
    """How a judge treats its own family on the episodes that it has graded; None where families
    are not given, or too little is graded."""
    families = dict(study.protocol.families)
    if name not in families:
        return None
    digest, identities = record_digest(judge_pin(study, name)), study.identities()

    def shifts() -> Iterator[tuple[str, bool, float]]:
        for cell in results_there(study):
            grade = read_grade(study.store, digest, cell.episode, identities)
            if grade is None or cell.model not in families:
                continue
            exact = read_result(study.store, result_key(cell.episode), identities).grade
            shift = _shift(grade, exact)
            if shift is not None:
                yield cell.instance, families[cell.model] == families[name], shift

    return family_bias(shifts())


def _shift(grade: Grade, exact: Grade) -> float | None:
    """By how much more of the criteria that both decided the judge says are met."""
    pairs = [
        (said, truth)
        for said, truth in zip(grade.verdicts, exact.verdicts, strict=True)
        if said is not None and truth is not None
    ]
    return sum(said - truth for said, truth in pairs) / len(pairs) if pairs else None

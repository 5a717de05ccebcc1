"""``dosimeter judge check``: a judge measured on answer sheets whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.agreement import (
    FamilyBias,
    Judged,
    cohen_kappa,
    family_bias,
    krippendorff_alpha,
    measure_judge,
)
from analysis.rates import Rate
from analysis.wholefile import write_whole
from harness.episode import Grade
from harness.errors import AttemptFailed
from harness.judge import Submission, judge_criteria
from harness.judging import StoreReplies, build_judge, read_grade
from harness.keys import result_key
from harness.sheets import Sheet, make_sheets
from harness.work import read_result
from registry.canon import digest_value
from registry.records import record_body, record_digest
from study.alone import alone
from study.errors import StudyError
from study.folder import Study
from study.judges import judge_pin, results_there

FOLDER = "judges"  # of the study's folder; a file a judge
FORMAT = "dosimeter/judge-check/1"
LEAST = 400  # criteria that a plan may rely on (spec/statistics.md, C3)
Watch = Callable[[str, int, int], None]  # what, done, of
Verdicts = tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class CheckRequest:
    judge: str
    criteria: int = LEAST
    parallel: int = 4  # sheets at once


def check_judge(study: Study, request: CheckRequest, watch: Watch) -> tuple[dict[str, Any], Path]:
    """Measure a judge on sheets from the study's tasks; the result, and its file in the study.

    Replies are kept as those of grading are: killed, it goes on where it was. Raises StudyError
    where the provider fails, HarnessError, RegistryError.
    """
    pin = judge_pin(study, request.judge)
    judge = build_judge(pin, str(study.folder.resolve()))
    strata = [(task.family, task.version, task.difficulty) for task in study.protocol.tasks]
    sheets = make_sheets(strata, request.criteria)
    replies = StoreReplies(study.store, judge.digest, study.recipients(), study.identities())

    def grade(sheet: Sheet) -> Verdicts:
        return judge_criteria(judge, Submission(sheet.task, sheet.answer), sheet.criteria, replies)

    with alone(study.folder / ".grade.lock", "another grading of this study"):
        try:
            verdicts = _grade_sheets(sheets, grade, request, watch)
        finally:
            judge.close()
    body = _body(study, request.judge, sheets, verdicts)
    path = study.folder / FOLDER / f"{pin.name}.json"
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return body, path


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


def _body(
    study: Study, name: str, sheets: Sequence[Sheet], verdicts: Sequence[Verdicts]
) -> dict[str, Any]:
    pin = judge_pin(study, name)
    judged = list(_judged(sheets, verdicts))
    said = [each.verdict for each in judged]
    names = [[sheet.id, each.id, each.text] for sheet in sheets for each in sheet.criteria]
    asked = digest_value([[sheet.answer for sheet in sheets], names])
    others = _others(study, name, asked)
    bias = _bias(study, name)
    return {
        "format": FORMAT,
        "judge": record_body(pin),
        "digest": record_digest(pin),
        "sheets": asked,
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
        "others": {other: cohen_kappa(said, theirs) for other, theirs in others.items()},
        "alpha": krippendorff_alpha([said, *others.values()]) if others else None,
        "family_bias": None if bias is None else asdict(bias),
        "verdicts": [
            {"sheet": sheet, "criterion": criterion, "truth": each.truth, "verdict": each.verdict}
            for (sheet, criterion, _), each in zip(names, judged, strict=True)
        ],
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

"""From an episode and its grade to the row that the analysis reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from harness.episode import Cell, Episode, Grade, GradeStatus
from harness.spending.prices import Price, total_cost
from harness.storage import Codec
from registry.result_row import Arm, EpisodeColumns, ResultRow, Status

LENIENT = "lenient/0"  # the part of that column; it has no weight in the score

_STATUS = {
    GradeStatus.GRADED: Status.SCORED,
    GradeStatus.NO_ANSWER: Status.MODEL_FAILURE,
    GradeStatus.MISSING: Status.MISSING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult(EpisodeColumns):
    """The attempt that counts: its columns, all of a ResultRow but the arm and what goes with it,
    which workers do not know, and the grade in full."""

    episode: str
    attempt: int  # the one that counts
    grade: Grade


RESULT_CODEC: Codec[EpisodeResult] = Codec("result", 1, EpisodeResult)


_SHARED = tuple(field.name for field in fields(EpisodeColumns))
_GRADE_COLUMNS = ("score", "score_key", "score_static", "key_fraction", "gate_free")


def summarise_episode(
    wave: int, cell: Cell, episode: Episode, grade: Grade, attempts: int, price: Price | None = None
) -> EpisodeResult:
    """Return the result of a cell: the grade, cost and tokens of the attempt that counts.
    ``attempts`` is how many were made in all; the budget counts what the others cost."""
    return EpisodeResult(
        episode=cell.episode,
        attempt=episode.attempt,
        grade=grade,
        wave=wave,
        model=cell.model,
        stratum=cell.spec.stratum,
        family=cell.spec.family,
        difficulty=cell.spec.difficulty,
        mode=str(cell.mode),
        instance=cell.instance,
        replicate=cell.replicate,
        attempts=attempts,
        repairs=",".join(grade.repairs),
        **_graded_columns(grade),
        **_episode_columns(episode, price),
    )


def row_of(result: EpisodeResult, arm: Arm) -> ResultRow:
    """The result as a row of the arm that its instance was allotted to."""
    return ResultRow(arm=arm, **{name: getattr(result, name) for name in _SHARED})


def rows_of(result: EpisodeResult, arm: Arm) -> tuple[ResultRow, ...]:
    """The result's row; and a second one, by the grader ``lenient``, where the task has a column
    that forgives how an answer is packed."""
    row = row_of(result, arm)
    verdicts = dict(zip(result.grade.parts, result.grade.verdicts, strict=True))
    if LENIENT not in verdicts:
        return (row,)
    right = verdicts[LENIENT]
    score, passed = (None, None) if right is None else (float(right), int(right))
    parts: dict[str, Any] = dict.fromkeys(name for name in _SHARED if name.startswith("score_"))
    parts |= {"score": score, "passed": passed, "key_fraction": score, "gate_free": score}
    return row, replace(row, grader="lenient", **parts)


def judged_row(result: EpisodeResult, grade: Grade, arm: Arm) -> ResultRow:
    """The row of the same episode as another grader scored it."""
    return replace(row_of(result, arm), **_graded_columns(grade))


def _graded_columns(grade: Grade) -> dict[str, Any]:
    decided = [
        verdict
        for part, verdict in zip(grade.parts, grade.verdicts, strict=True)
        if verdict is not None and part != LENIENT
    ]
    missing = grade.status is GradeStatus.MISSING
    dimensions = dict(grade.dimension_scores)
    return {
        "grader": grade.grader,
        "status": _STATUS[grade.status],
        "passed": None if missing or not grade.parts else sum(decided),
        "total": None if missing or not grade.parts else len(decided),
        **{f"score_{name.lower()}": dimensions.get(name) for name in ("SR", "DH", "IM", "IF")},
        **{name: getattr(grade, name) for name in _GRADE_COLUMNS},
    }


def _episode_columns(episode: Episode, price: Price | None) -> dict[str, Any]:
    steps = episode.steps
    uses = [use for step in steps for use in step.uses]
    cost = total_cost(price, (step.reply.usage for step in steps))
    return {
        "stop_reason": str(episode.stop),
        "error_class": episode.error_class,
        "limits_hit": ",".join(sorted({limit for use in uses for limit in use.limits})),
        "turns": len(steps),
        "tool_calls": len(uses),
        "input_tokens": episode.usage.input_tokens,
        "output_tokens": episode.usage.output_tokens,
        "cost_usd": None if cost is None else float(cost),
        "seconds": episode.seconds,
        "reasoning_tokens": episode.usage.reasoning_tokens,
        "served_version": _join(step.reply.served_version for step in steps),
        "fingerprint": _join(step.reply.fingerprint for step in steps),
        "response_id": _join(step.reply.response_id for step in steps),
        "finish": steps[-1].reply.finish if steps else "",
    }


def _join(names: Iterable[str]) -> str:
    """The distinct names in the order first met: several if they changed midway."""
    return ", ".join(dict.fromkeys(filter(None, names)))

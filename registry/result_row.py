"""The columns of a result row: the contract between harness and analysis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

GRADER = "deterministic"  # the exact grader; a plan tests its rows, others are exploratory


class Arm(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"


class Status(StrEnum):
    """Missing is never zero: a score stands beside each status but ``missing``."""

    SCORED = "scored"
    MODEL_FAILURE = "model_failure"  # refusal, turn limit, unreadable answer: score 0
    MISSING = "missing"  # infrastructure failed on every attempt: score None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeColumns:
    """One episode as one grader scored it, without its arm."""

    wave: int
    model: str
    stratum: str  # "<family>/<difficulty>"
    family: str
    difficulty: str
    instance: str
    replicate: int
    grader: str  # "deterministic", or a judge's name
    status: Status
    score: float | None  # weighted, 0…1
    passed: int | None  # parts of criteria
    total: int | None
    score_sr: float | None
    score_dh: float | None
    score_im: float | None
    score_if: float | None
    stop_reason: str
    error_class: str  # "" where nothing failed
    limits_hit: str  # comma-joined names, "" where none
    turns: int
    tool_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None  # None where the price is unknown
    seconds: float
    attempts: int
    served_version: str
    mode: str = "agentic"  # or "single_turn": one message, one reply, no tools
    score_key: float | None = None  # over the criteria that need the instance's answer key
    score_static: float | None = None  # over those that are the same in every instance
    key_fraction: float | None = None  # of the criteria that need the key: the mean share met
    repairs: str = ""  # comma-joined, without which the answer could not be read; "" if none
    gate_free: float | None = None  # credit for headline values whatever the gates before them
    reasoning_tokens: int | None = None  # of the output; None where the provider reports none
    # Like the served version, in the order first met, joined by ", "; "" where none is reported.
    fingerprint: str = ""  # of the configuration that served the replies
    response_id: str = ""  # the provider's names of the replies
    finish: str = ""  # how the last reply ended, and where its answer was read


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow(EpisodeColumns):
    """One episode with what is joined to its results with the study's key."""

    arm: Arm
    tranche: int = 0  # number of the instance's tranche; 0 is the panel
    burned: int = 0  # 1 if the model's provider may have stored this private instance before


_NAMES = [field.name for field in fields(ResultRow) if field.name != "arm"]
COLUMNS: tuple[str, ...] = (*_NAMES[:2], "arm", *_NAMES[2:])


def columns_of(rows: Iterable[ResultRow]) -> dict[str, list[Any]]:
    """The rows as columns, in the order of COLUMNS."""
    listed = list(rows)
    return {name: [getattr(row, name) for row in listed] for name in COLUMNS}

"""An episode: one model at one instance, attempt by attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from generators.seed import Seed
from generators.task import TaskSpec
from harness.mode import Mode as Mode  # exported too
from harness.model import Message, Omission, Reply, Try, Usage
from harness.model import ToolUse as ToolUse

SECONDS_DIGITS = 4  # durations are recorded to a tenth of a millisecond


class StopReason(StrEnum):
    """Reason for the end of an episode."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"  # working time: that of the tools
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - no secret
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"  # too long for the model with all left out that can be
    TRUNCATED = "truncated"  # the final message was cut off by the limit on output tokens
    FAILED = "failed"  # infrastructure; see error_class


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of the program that an answer gives, in a sandbox of its own after the agent."""

    given: str  # on standard input
    output: str
    exit_code: int
    limits: tuple[str, ...] = ()  # as in harness.sandboxes.ExecResult


@dataclass(frozen=True, slots=True)
class Cell:
    """One episode owed: an instance, a model, a replicate. It does not know its arm."""

    episode: str  # its name; in a sweep, only the run's key gives it
    spec: TaskSpec
    instance: str = field(repr=False)
    seed: Seed
    model: str
    replicate: int
    mode: Mode = Mode.AGENTIC
    # Of what is written of it, as 64 hexadecimal digits; with a lease only.
    key: str = field(default="", repr=False)
    definition: str = field(default="", repr=False)  # a digest; "" if that is the name


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the model's reply and the results of its tool calls."""

    reply: Reply
    uses: tuple[ToolUse, ...]
    seconds: float
    prompt: str = ""  # the harness's message before this turn, after the tools' results
    closed: StopReason | None = None  # the limit that had closed the tools: a last question
    left_out: Omission | None = None  # of the conversation, in this turn's request


@dataclass(frozen=True, slots=True)
class Kept:
    """A paid reply, or a failed request, that is in none of an attempt's turns."""

    turn: int
    reply: Reply | None = None
    failed: Try | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One whole attempt at a cell."""

    id: str
    instance: str
    run: str  # digest of the RunManifest
    model: str
    replicate: int
    attempt: int
    opening: tuple[Message, ...] = ()  # system and user messages that it began with
    steps: tuple[Turn, ...] = ()
    answer: str = ""  # the final message's text
    answer_file: bytes | None = None  # answer.json of the work folder
    stop: StopReason
    usage: Usage = field(default_factory=Usage)
    started: str  # UTC, ISO 8601
    seconds: float = 0.0
    container: str = ""
    error_class: str = ""  # "<boundary>:<class>" of what failed the attempt
    answer_files: tuple[tuple[str, bytes], ...] = ()  # files that the answer points to
    failed_tries: tuple[tuple[str, int], ...] = ()  # failed requests, by error class
    image: str = ""  # digest of what the container ran
    replies: int = 0  # paid ones from the first turn on: the next attempt inherits them
    inherited: int = 0  # of these, bought by earlier attempts
    program_runs: tuple[ProgramRun, ...] = ()  # of the answer's program, on hidden inputs
    paid: tuple[int, ...] = ()  # turns of which it has bought the reply
    kept: tuple[Kept, ...] = ()  # the rest of its journal

    def paid_replies(self) -> dict[int, Reply]:
        """The replies that this attempt has bought, by turn."""
        in_turns = {turn: self.steps[turn].reply for turn in self.paid}
        return in_turns | {each.turn: each.reply for each in self.kept if each.reply is not None}


class GradeStatus(StrEnum):
    """Outcome of grading an episode: a score, or the reason for having none."""

    GRADED = "graded"
    NO_ANSWER = "no_answer"  # the model's own failure: score 0
    MISSING = "missing"  # infrastructure failed: no score


@dataclass(frozen=True, slots=True)
class Grade:
    """One grader's verdict on each part of the criteria of one episode. ``facts`` are those that
    do not regard the gates, of which ``verdicts`` do. A score of another harness has no parts."""

    episode: str
    grader: str
    status: GradeStatus
    parts: tuple[str, ...]
    facts: tuple[bool | None, ...]
    verdicts: tuple[bool | None, ...]
    score: float | None
    dimension_scores: tuple[tuple[str, float | None], ...] = ()
    score_key: float | None = None  # over the criteria that need the instance's answer key
    score_static: float | None = None  # over those that are the same in every instance
    key_fraction: float | None = None  # of the criteria that need the key: the mean share met
    gate_free: float | None = None  # credit for headline values whatever the gates before them
    repairs: tuple[str, ...] = ()  # without which the answer could not be read
    violations: tuple[str, ...] = ()  # what in it does not fit the schema: the path and the rule

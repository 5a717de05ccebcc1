"""An LLM judge: a plain model that decides some facts about one answer at a time: each is a part
of a criterion, stated with its truth. Gates are not asked of it.

The answer is untrusted. It stands between two lines that carry a mark drawn for this call alone,
so that nothing in it can close the block, and the prompt states that it is data. A reply counts
only if it has exactly the requested form; else the call is repeated, and in the end those criteria
are ungraded, which never counts against the model that answered.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from generators.grading.blocks import parse_block
from generators.grading.checks import FitsSchema, Unrepaired
from generators.grading.programs import needs_runs
from generators.grading.rubric import Part, Rubric, Verdicts, criteria_of
from generators.seed import Seed
from generators.templates.scoring.score import Scored
from harness.errors import AttemptFailed, Boundary
from harness.model import Message, Model, ModelRequest, Role, close_model
from harness.spending.prices import Price
from harness.spending.purchases import Journal
from registry.canonical import digest_value
from registry.files import read_beside
from registry.ledger.records import JudgePin, pin_digest

MAX_EXPECTED = 20_000  # characters of a templated question's right answer in a prompt
_TEXTS: dict[str, str] = read_beside(__file__, "prompts.yaml")
SYSTEM = _TEXTS["system"]


def questions_of(rubric: Rubric) -> tuple[Part, ...]:
    """Return the parts that a judge decides, in the words of its prompt."""
    return tuple(replace(part, text=text) for part in rubric.parts if (text := _question_of(part)))


def is_judged(part: Part) -> bool:
    """True if a judge decides this part: it has weight, and an answer's text settles it."""
    return bool(_question_of(part))


def _question_of(part: Part) -> str:
    """The part's text for a judge; "" if no judge decides it: one without weight belongs to
    another column, and an answer's text does not show whether files exist or are unchanged, whether
    it was repaired, the schema, or what a program prints.

    The text of a templated question does not state what is right. A judge reads what the answer,
    or the file that it was to write, must state, whatever the wrapping.
    """
    if part.weight <= 0 or isinstance(part.check, Unrepaired | FitsSchema):
        return ""
    if needs_runs(part.check):
        return ""
    if not isinstance(part.check, Scored):
        return part.text
    check = part.check
    if len(check.expected) > MAX_EXPECTED:
        return ""
    where = f"The file {check.file!r}" if check.file else "The answer"
    match check.scoring_type.removeprefix("readfile_"):
        case "stringmatch":
            right = json.dumps(check.expected.strip(), ensure_ascii=False)
            return _TEXTS["text"].format(where=where, right=right)
        case "jsonmatch":
            return _TEXTS["json"].format(where=where, right=_on_one_line(check.expected))
        case _:
            return ""


def _on_one_line(text: str) -> str:
    """A JSON value without line breaks; as a quoted text if it cannot be parsed."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)


CHUNK = 20  # parts a call, or more if one criterion has more
TRIES = 3  # requests for one call, until a reply has the requested form
_FRAME = 256  # tokens that a server may put around the messages of a call
MAX_CHARS = 200_000  # of an answer; a longer one is left ungraded rather than cut

_MARK = 32  # hexadecimal digits

# After these failures another request may still bring a reply; all others end the attempt.
_UNFIT = frozenset(("malformed", "too_large", "context_length"))


def reply_schema(count: int) -> dict[str, Any]:
    """Return the JSON Schema of a reply on this many criteria."""
    verdict = {
        "type": "object",
        "properties": {
            "id": {"enum": [f"c{number}" for number in range(1, count + 1)]},
            "evidence": {"type": "string"},
            "met": {"type": "boolean"},
        },
        "required": ["id", "evidence", "met"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "items": verdict, "minItems": count, "maxItems": count}
    return {
        "type": "object",
        "properties": {"verdicts": listed},
        "required": ["verdicts"],
        "additionalProperties": False,
    }


def prompt_digest() -> str:
    """Return the digest of how a judge is prompted: texts, form of a reply, sizes."""
    return digest_value(
        {
            "texts": list(_TEXTS.values()),
            "schema": reply_schema(1),
            "chunk": CHUNK,
            "tries": TRIES,
            "max_chars": MAX_CHARS,
        }
    )


Journals = Callable[[str], Journal]
"""The journal of each call, by the digest of its content."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A pinned judge and its model."""

    pin: JudgePin
    model: Model
    draw: Callable[[], str] = field(default=partial(secrets.token_hex, _MARK // 2), repr=False)
    structured: bool = False  # the server makes replies fit their JSON Schema

    @property
    def digest(self) -> str:
        """The digest of its pin."""
        return pin_digest(self.pin)

    def close(self) -> None:
        """Close its model's connections, if any."""
        close_model(self.model)


@dataclass(frozen=True, slots=True)
class Unasked:
    """A judge's model that is asked nothing: a reply that is not stored is as one that failed."""

    name: str
    trusted: bool = True
    paid: bool = False

    def respond(self, request: ModelRequest) -> NoReturn:
        """Raise AttemptFailed."""
        raise AttemptFailed(Boundary.PROVIDER, "malformed", "its reply is not stored")


@dataclass(frozen=True, slots=True)
class Submission:
    """Input of a judge: the task as it was set, and the untrusted answer. ``salt`` makes the name
    of a call impossible to guess from its content."""

    task: str
    answer: str
    salt: str = field(default="", repr=False)


def judge_criteria(
    judge: Judge, submission: Submission, parts: Sequence[Part], journals: Journals
) -> Verdicts:
    """Return the verdict on each part, None if the judge gave none that can be read.

    Each reply is stored before it is read, and none is requested twice. Raises AttemptFailed if the
    provider fails, StoreError if a reply cannot be stored.
    """
    if len(submission.answer) > MAX_CHARS:
        return (None,) * len(parts)
    return tuple(
        verdict
        for chunk in chunks_of(parts)
        for verdict in _judge_chunk(judge, submission, chunk, journals)
    )


def chunks_of(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    """Yield the parts of each call: whole criteria, as many as there is room for."""
    chunk: list[Part] = []
    for criterion in criteria_of(parts):
        if chunk and len(chunk) + len(criterion) > CHUNK:
            yield chunk
            chunk = []
        chunk.extend(criterion)
    if chunk:
        yield chunk


def judging_bound(
    judge: Judge, submission: Submission, parts: Sequence[Part], price: Price
) -> Decimal | None:
    """Return the most that verdicts on these criteria can cost, in USD: each call repeated as often
    as allowed, one token for each byte that is sent, the longest reply. None if the judge's
    settings do not state ``max_tokens``."""
    longest = dict(judge.pin.settings).get("max_tokens")
    if longest is None:
        return None
    if len(submission.answer) > MAX_CHARS:
        return Decimal()
    total = Decimal()
    for chunk, text in zip(chunks_of(parts), call_texts(submission, parts), strict=True):
        schema = json.dumps(reply_schema(len(chunk))) if judge.structured else ""
        tokens = len((text + schema).encode()) + _FRAME
        total += TRIES * price.highest(tokens, int(longest))
    return total


def call_digest(judge: Judge, submission: Submission, parts: Sequence[Part]) -> str:
    """Return the digest of a call's content, which names its replies: judge, prompt, answer and
    criteria."""
    return digest_value(
        {
            "judge": judge.digest,
            "task": submission.task,
            "answer": submission.answer,
            "criteria": [part.text for part in parts],
            "salt": submission.salt,
        }
    )


def _judge_chunk(
    judge: Judge, submission: Submission, parts: Sequence[Part], journals: Journals
) -> Verdicts:
    call = call_digest(judge, submission, parts)
    journal = journals(call)
    for number in range(TRIES):
        reply = journal.load(number)
        if reply is None:
            request = replace(
                make_request(judge, submission, parts, call, number),
                keep=partial(journal.keep_failed, number),
            )
            try:
                reply = journal.save(number, judge.model.respond(request))
            except AttemptFailed as failed:
                if failed.error_class not in _UNFIT:
                    raise
                continue
        verdicts = read_verdicts(reply.message, len(parts))
        if verdicts is not None:
            return verdicts
    return (None,) * len(parts)


def make_request(
    judge: Judge, submission: Submission, parts: Sequence[Part], call: str, number: int
) -> ModelRequest:
    """Return the request of a call, counted from 0. Its mark is drawn after the answer was given,
    and occurs nowhere in it."""
    while (mark := judge.draw()) in submission.answer:
        pass
    messages = call_messages(submission, parts, mark, number)
    seed = Seed.from_hex(call.removeprefix("sha256:")).child("judge", number)
    schema = json.dumps(reply_schema(len(parts))) if judge.structured else ""
    return ModelRequest(messages, (), seed, schema=schema)


def call_messages(
    submission: Submission, parts: Sequence[Part], mark: str = "0" * _MARK, number: int = 0
) -> tuple[Message, ...]:
    """Return the messages of a call, counted from 0, with the mark that encloses the answer."""
    prompt = _prompt(submission, parts, mark, number)
    return (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, prompt))


def call_texts(submission: Submission, parts: Sequence[Part]) -> Iterator[str]:
    """Yield all the text of each call at its longest, to estimate its cost."""
    for chunk in chunks_of(parts):
        yield SYSTEM + _prompt(submission, chunk, "0" * _MARK, 1)


def _prompt(submission: Submission, parts: Sequence[Part], mark: str, number: int) -> str:
    listed = "\n".join(f"c{number}. {each.text}" for number, each in enumerate(parts, 1))
    prompt = [
        _TEXTS["task"].format(task=submission.task),
        _TEXTS["answer"].format(mark=mark, answer=submission.answer),
        _TEXTS["criteria"].format(criteria=listed),
        *([_TEXTS["again"]] if number else []),
    ]
    return "\n\n".join(prompt)


class _Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: str
    met: bool
    evidence: str = ""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    verdicts: list[_Verdict]


def read_verdicts(message: Message, count: int) -> tuple[bool, ...] | None:
    """Return the verdicts of a reply on ``count`` criteria, in their order; None unless it is one
    JSON object (in a code fence or not) that has each id exactly once with true or false."""
    try:
        block = None if message.calls else parse_block(message.text)
        listed = _Reply.model_validate(block).verdicts
    except ValidationError:
        return None
    verdicts = {verdict.id: verdict.met for verdict in listed}
    ids = [f"c{number}" for number in range(1, count + 1)]
    exact = len(listed) == count and set(verdicts) == set(ids)
    return tuple(verdicts[id_] for id_ in ids) if exact else None

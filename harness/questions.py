"""What a judge is asked about: criteria as they are put to it."""

from __future__ import annotations

import json
from dataclasses import replace

from generators.checks import Scored
from generators.rubric import Criterion, Rubric

MAX_EXPECTED = 20_000  # characters of a templated question's right answer that are put to a judge
_PACKED = (
    "Words around it, a code fence, and how a number is written (5, 5.0, five) do not matter; what "
    "it says does."
)
TEXT = "{where} states that the answer is {right}, and no other. " + _PACKED
JSON = "{where} gives as its result JSON of the same value as {right}. " + _PACKED


def questions_of(rubric: Rubric) -> tuple[Criterion, ...]:
    """The criteria that a judge is asked about, as they are put to it."""
    return tuple(
        replace(each, text=text) for each in rubric.criteria if (text := question_of(each))
    )


def is_asked(criterion: Criterion) -> bool:
    """Whether a judge can tell and it counts."""
    return bool(question_of(criterion))


def question_of(criterion: Criterion) -> str:
    """What a judge is asked; "" where it is not: what has no weight is another column's, and
    whether files exist, or the rest of one is as it was, nobody tells by reading an answer.

    The text of a templated question does not say what is right. It is put as what the answer, or
    the file that it was to write, must state, however that is packed.
    """
    if criterion.weight <= 0:
        return ""
    if not isinstance(criterion.check, Scored):
        return criterion.text
    check = criterion.check
    if len(check.expected) > MAX_EXPECTED:
        return ""
    where = f"The file {check.file!r}" if check.file else "The answer"
    match check.scoring_type.removeprefix("readfile_"):
        case "stringmatch":
            right = json.dumps(check.expected.strip(), ensure_ascii=False)
            return TEXT.format(where=where, right=right)
        case "jsonmatch":
            return JSON.format(where=where, right=_on_one_line(check.expected))
        case _:
            return ""


def _on_one_line(text: str) -> str:
    """A JSON value without line breaks; as a quoted text, if it is none that can be read."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)

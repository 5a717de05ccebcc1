"""The form of the answer, what earns marks, and guesses that must not."""

from __future__ import annotations

from typing import Any

from generators.family import form_criteria
from generators.grading.rubric import Metarubric, Rubric, fill_rubric
from generators.ladder.answers import (
    MOST_CRITERIA,
    answer_block,
    answered,
    answers_schema,
    is_right,
    question_ids,
)
from generators.ladder.order_statistics.parameters import NAME, Parameters
from generators.task import GroundTruth

ANSWER_SCHEMA = answers_schema(NAME, {"type": "integer"})


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth. An answer needs no gate: a guess at one is
    right once in nine times at most."""
    answers = Metarubric(
        "answers",
        "DH",
        10.0,
        "The answer to question {id} ({question}) is {answer}.",
        is_right,
        source="questions",
        criteria=MOST_CRITERIA,
    )
    return fill_rubric((*form_criteria(NAME, ANSWER_SCHEMA, 0.2), answers), dict(truth.tables))


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return answered(truth, "questions", NAME)


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, numbers from the whole range to every question, the middle of the range,
    its ends, the middle rank, and numbers that run through the range."""
    ids = question_ids(parameters.questions)
    low, high = parameters.low, parameters.high
    step = (high - low) // len(ids)
    every = ((id, number) for id in ids for number in range(low, high + 1, max(1, step // 10)))
    constants = {"prior": (low + high) // 2, "least": low, "greatest": high}
    constants["middle rank"] = (parameters.length + 1) // 2
    return {
        "empty": {},
        "everything": answer_block(NAME, every),
        "ramp": answer_block(NAME, ((id, low + step * at) for at, id in enumerate(ids))),
        **{
            name: answer_block(NAME, ((id, number) for id in ids))
            for name, number in constants.items()
        },
    }

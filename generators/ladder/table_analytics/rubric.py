"""The truth, the form of the answer, what earns marks, and guesses that must not."""

from __future__ import annotations

from collections.abc import Sequence
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
from generators.ladder.table_analytics.parameters import MOST_UNITS, NAME, PRICES, Parameters
from generators.ladder.table_analytics.questions import Question
from generators.task import GroundTruth, TruthTable

ANSWER_SCHEMA = answers_schema(NAME, {"type": ["integer", "string"]})


def make_truth(questions: Sequence[Question]) -> GroundTruth:
    """Table ``questions`` (id, kind, question, answer)."""
    ids = question_ids(len(questions))
    rows = tuple((id, q.kind, q.text, q.answer) for id, q in zip(ids, questions, strict=True))
    return GroundTruth((("questions", TruthTable(("id", "kind", "question", "answer"), rows)),))


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return answered(truth, "questions", NAME)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth. An answer needs no gate: names and numbers are
    too many to be guessed."""
    answers = Metarubric(
        "answers",
        "DH",
        10.0,
        'The answer to question {id} ("{question}") is {answer}.',
        is_right,
        source="questions",
        criteria=MOST_CRITERIA,
    )
    return fill_rubric((*form_criteria(NAME, ANSWER_SCHEMA, 0.2), answers), dict(truth.tables))


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, many numbers to every question, the expected units and turnover of a shop,
    and nothing sold."""
    ids = question_ids(parameters.questions)
    units = parameters.orders * (1 + MOST_UNITS) // 2 // parameters.shops
    constants = {"prior": units, "turnover": units * sum(PRICES) // 2, "zero": 0}
    return {
        "empty": {},
        "everything": answer_block(NAME, ((id, number) for id in ids for number in range(1000))),
        **{
            name: answer_block(NAME, ((id, number) for id in ids))
            for name, number in constants.items()
        },
    }

"""Numbered questions: the form of their answers, their criterion, and guesses at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from generators.family import TEXT, answer_schema, list_of, record_of
from generators.grading.checks import Check
from generators.grading.item_lists import ItemList, ItemValue
from generators.grading.rubric import Row
from generators.task import GroundTruth, TruthTable

MOST_CRITERIA = 50  # of an instance; each answer is one where there are no more
ANSWERS = ItemList(("answers",), "id")


def answers_schema(task: str, answer: Mapping[str, Any]) -> str:
    """The JSON Schema of a list of answers, each with the id of its question."""
    return answer_schema(task, {"answers": list_of(record_of(id=TEXT, answer=answer))})


def answer_block(task: str, answers: Iterable[tuple[str, str | int]]) -> dict[str, Any]:
    """The answer block with these answers, by question."""
    return {"task": task, "answers": [{"id": id, "answer": answer} for id, answer in answers]}


def question_ids(count: int) -> tuple[str, ...]:
    """The ids of so many questions: Q01, Q02 and so on."""
    return tuple(f"Q{number:02d}" for number in range(1, count + 1))


def is_right(row: Row) -> Check:
    """The check of the answer to the question of a row of the truth."""
    answer = row["answer"]
    return ItemValue(
        ANSWERS, str(row["id"]), "answer", answer if isinstance(answer, str) else int(answer)
    )


def answered(truth: GroundTruth, table: str, task: str) -> dict[str, Any]:
    """The answer block that scores full marks: the columns ``id`` and ``answer`` of a table."""
    return answer_block(task, _pairs(truth.table(table)))


def _pairs(table: TruthTable) -> Iterable[tuple[str, str | int]]:
    for row in table.records():
        answer = row["answer"]
        yield str(row["id"]), answer if isinstance(answer, str) else int(answer)

"""Rubrics: criteria from tables, verdicts from checks, scores from verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.grading.answer import Answer
from generators.grading.checks import FitsSchema, Gated, ListsNumber, NumberPrecision, ValueEquals
from generators.grading.rubric import (
    Criterion,
    Metarubric,
    Rubric,
    check_answer,
    fill_rubric,
    headline_credit,
    score_parts,
)
from generators.grading.rubric import score_verdicts as score
from generators.task import TruthTable

TABLES = {"images": TruthTable(("name", "count"), (("a", 1), ("b", 2), ("c", 3), ("d", 4)))}
RUBRIC = fill_rubric(
    (
        Metarubric("given", "IF", 1.0, "There is an answer.", FitsSchema('{"minProperties": 1}')),
        Metarubric(
            "counts",
            "IM",
            3.0,
            "{name} shows {count}.",
            lambda row: ValueEquals((str(row["name"]),), int(row["count"])),
            "images",
        ),
        Metarubric("style", "SR", 6.0, "It reads well.", None),
    ),
    TABLES,
)


def test_a_metarubric_makes_a_criterion_a_row():
    assert [each.id for each in RUBRIC.criteria] == [
        "given/0",
        "counts/0",
        "counts/1",
        "counts/2",
        "counts/3",
        "style/0",
    ]
    third = RUBRIC.criteria[3]
    assert (third.text, third.source, third.weight) == ("c shows 3.", "images/2", 3.0)


def test_what_only_a_judge_can_tell_is_left_open():
    verdicts = check_answer(RUBRIC, Answer({"a": 1, "b": 2, "c": 9}))
    assert verdicts == (True, True, True, False, False, None)


def test_a_metarubric_scores_its_share_and_the_task_their_weighted_mean():
    verdicts = (True, True, True, False, False, None)
    assert score(RUBRIC, verdicts) == pytest.approx((1 * 1.0 + 3 * 0.5) / 4)
    assert score(RUBRIC, (*verdicts[:-1], True)) == pytest.approx((1 + 1.5 + 6) / 10)
    assert score(RUBRIC, verdicts, ("IM",)) == 0.5


def test_missing_is_never_zero():
    assert score(RUBRIC, (None,) * 6) is None
    assert score(RUBRIC, (True,) * 5 + (None,), ("SR",)) is None
    assert score(RUBRIC, (None, True, None, None, None, None)) == 1.0


def test_what_needs_the_key_is_told_from_what_every_instance_asks_alike():
    verdicts = (True, True, True, False, False, None)
    assert score_parts(RUBRIC, verdicts) == (0.5, 1.0)
    assert score_parts(RUBRIC, (*verdicts[:-1], False)) == (0.5, pytest.approx(1 / 7))
    assert score_parts(RUBRIC, (None,) * 6) == (None, None)
    assert score_parts(RUBRIC, (None, True, *(None,) * 4)) == (1.0, None)
    guarded = Gated(FitsSchema('{"minProperties": 1}'), NumberPrecision(("numbers",), (1.0,)))
    metas = (Metarubric("fit", "SR", 1.0, "It fits.", guarded),)
    assert score_parts(fill_rubric(metas, TABLES), (True,)) == (1.0, None)


def test_verdicts_must_be_as_many_as_criteria():
    with pytest.raises(ValueError, match="shorter"):
        score(RUBRIC, (True,))


def test_a_gate_that_guards_many_is_the_same_as_many_gates():
    values = (1.0, 2.0, 3.0)
    shared = NumberPrecision(("numbers",), values)

    def rubric(gates):
        return Rubric(
            tuple(
                Criterion(
                    f"n/{at}", "n", "", "DH", 1.0, "", Gated(ListsNumber(("numbers",), value), gate)
                )
                for at, (value, gate) in enumerate(zip(values, gates, strict=True))
            )
        )

    one = rubric([shared] * 3)
    many = rubric([NumberPrecision(("numbers",), values) for _ in values])
    for listed in ([1.0, 2.0], [1.0, 7.0, 8.0], [], [3.0]):
        answer = Answer({"numbers": listed})
        assert check_answer(one, answer) == check_answer(many, answer)


def test_a_table_is_rectangular():
    with pytest.raises(ValueError, match="2 columns"):
        TruthTable(("a", "b"), ((1, 2), (3,)))


def test_a_cell_keeps_its_type():
    table = TruthTable(("event", "mass", "name"), ((841, 91.25, "0042"),))
    assert table.records() == [{"event": 841, "mass": 91.25, "name": "0042"}]
    assert [type(cell) for cell in table.records()[0].values()] == [int, float, str]
    assert table.column("name") == ("0042",)
    assert table.as_json() == {
        "columns": ["event", "mass", "name"],
        "rows": [[841, 91.25, "0042"]],
    }


def test_headline_values_are_marked_or_all_that_needs_the_key():
    answer = Answer({"a": 1, "b": 9})
    assert headline_credit(RUBRIC, answer) == 0.25
    assert headline_credit(RUBRIC, None) == 0.0
    first, *rest = (c for c in RUBRIC.criteria if c.metarubric == "counts")
    marked = Rubric((replace(first, headline=True), *rest))
    assert headline_credit(marked, answer) == 1.0
    assert headline_credit(marked, Answer({"b": 2})) == 0.0
    judged = Rubric(tuple(c for c in RUBRIC.criteria if c.check is None))
    assert headline_credit(judged, answer) is None

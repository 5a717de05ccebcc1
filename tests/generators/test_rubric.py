"""Rubrics: criteria from tables, verdicts from checks, scores from verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.grading.answer import Answer
from generators.grading.checks import FitsSchema, Gated, ListsNumber, NumberPrecision, ValueEquals
from generators.grading.rubric import (
    Metarubric,
    Part,
    Rubric,
    apply_gates,
    check_answer,
    check_facts,
    fill_rubric,
    headline_credit,
    key_fraction,
    score_parts,
)
from generators.grading.rubric import score_verdicts as score
from generators.task import TruthTable
from tests.cases import cases

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


def test_a_metarubric_makes_a_part_a_row():
    assert [each.id for each in RUBRIC.parts] == cases(__file__, "parts")
    third = RUBRIC.parts[3]
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


def counting(rows, criteria):
    """A rubric of one list: the numbers from 0 on, each to be listed, behind a precision gate."""
    values = tuple(map(float, range(rows)))
    precise = NumberPrecision(("numbers",), values)

    def listed(row):
        return Gated(ListsNumber(("numbers",), float(row["n"])), precise)

    metas = (
        Metarubric("listed", "DH", 2.0, "It lists {n}.", listed, "numbers", criteria=criteria),
        Metarubric("total", "SR", 3.0, "It says 7.", Gated(ValueEquals(("total",), 7), precise)),
    )
    return fill_rubric(metas, {"numbers": TruthTable(("n",), tuple((n,) for n in values))})


@pytest.mark.parametrize(("rows", "most"), [(1, 10), (7, 10), (10, 10), (23, 10), (60, 4), (9, 1)])
def test_rows_are_dealt_in_their_order_into_criteria_of_about_one_size(rows, most):
    rubric = counting(rows, most)
    *dealt, total = rubric.criteria
    assert len(dealt) == min(rows, most)
    assert [part.id for part in total] == ["total/0"]
    assert [part.id for group in dealt for part in group] == [f"listed/{n}" for n in range(rows)]
    sizes = [len(group) for group in dealt]
    assert max(sizes) - min(sizes) <= 1
    assert len({group[0].criterion for group in rubric.criteria}) == len(rubric.criteria)


def test_a_criterion_is_worth_the_share_of_its_parts_and_counts_once():
    rubric = counting(6, 3)  # of two parts each, and the total
    verdicts = (True, True, True, False, False, False, True)
    assert key_fraction(rubric, verdicts) == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert score(rubric, verdicts) == pytest.approx((2 * 3 / 6 + 3 * 1) / 5)
    undecided = (None, True, None, None, False, False, True)
    assert key_fraction(rubric, undecided) == pytest.approx((1 + 0 + 1) / 3)
    assert key_fraction(rubric, (None,) * 7) is None


def test_facts_do_not_regard_the_gates_that_verdicts_do():
    rubric = counting(4, 2)
    answer = Answer({"numbers": [0.0, 1.0, *map(float, range(10, 15))], "total": 7})
    facts = check_facts(rubric, answer)  # two of seven are right: a guess
    assert facts == (True, True, False, False, True)
    assert check_answer(rubric, answer) == apply_gates(rubric, facts, answer) == (False,) * 5
    assert check_answer(rubric, Answer({"numbers": [0.0, 1.0], "total": 7})) == facts


def test_without_a_block_the_gates_open_if_half_of_the_rows_are_met():
    rubric = counting(4, 2)
    half, less = (True, True, False, False, True), (True, False, False, False, True)
    assert apply_gates(rubric, half, None) == half
    assert apply_gates(rubric, less, None) == (False,) * 5
    assert apply_gates(rubric, (None, True, None, None, True), None) == (
        None, True, None, None, True,
    )  # fmt: skip
    assert apply_gates(rubric, (None, None, None, None, True), None)[-1] is False


def test_verdicts_must_be_as_many_as_parts():
    with pytest.raises(ValueError, match="shorter"):
        score(RUBRIC, (True,))


def test_a_gate_that_guards_many_is_the_same_as_many_gates():
    values = (1.0, 2.0, 3.0)
    lists = [ListsNumber(("numbers",), value) for value in values]
    shared = NumberPrecision(("numbers",), values)

    def rubric(gates):
        return Rubric(
            tuple(
                Part(f"n/{at}", "n", "n", "", "DH", 1.0, "", Gated(listed, gate))
                for at, (listed, gate) in enumerate(zip(lists, gates, strict=True))
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
    assert table.as_json() == {"columns": ["event", "mass", "name"], "rows": [[841, 91.25, "0042"]]}


def test_headline_values_are_marked_or_all_that_needs_the_key():
    answer = Answer({"a": 1, "b": 9})
    assert headline_credit(RUBRIC, check_facts(RUBRIC, answer)) == 0.25
    assert headline_credit(RUBRIC, check_facts(RUBRIC, None)) == 0.0
    first, *rest = (c for c in RUBRIC.parts if c.metarubric == "counts")
    marked = Rubric((replace(first, headline=True), *rest))
    assert headline_credit(marked, check_facts(marked, answer)) == 1.0
    assert headline_credit(marked, check_facts(marked, Answer({"b": 2}))) == 0.0
    judged = Rubric(tuple(c for c in RUBRIC.parts if c.check is None))
    assert headline_credit(judged, (None,)) is None

"""Checks: pure comparisons that never raise and never give a point away."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.grading.answer import Answer
from generators.grading.checks import (
    FitsSchema,
    Gated,
    ListsNumber,
    MeanAgrees,
    NumberPrecision,
    NumberRecall,
    NumberWithin,
    ShareOf,
    Unrepaired,
    ValueEquals,
    check_as_json,
    passes,
)
from tests.cases import cases

WITHIN = NumberWithin(("average",), 1.0, 2.0)
THREE = ValueEquals(("counts", "1.png"), 3)
LISTS = ListsNumber(("numbers",), 1.5, copies=2, tolerance=0.1)
PRECISE = NumberPrecision(("numbers",), (1.0, 1.0, 2.0, 3.0))
COMPLETE = NumberRecall(("numbers",), (1.0, 1.0, 2.0, 3.0), tolerance=0.01)
CONSISTENT = MeanAgrees(("average",), ("counts",), 2, 0.005)
EVERY_CHECK = (
    FitsSchema('{"minProperties": 1}'),
    Unrepaired(WITHIN),
    WITHIN,
    THREE,
    ValueEquals(("counts", "1.png"), "three"),
    ValueEquals(("flag",), True),
    LISTS,
    PRECISE,
    COMPLETE,
    ShareOf((WITHIN, THREE)),
    ShareOf(()),
    CONSISTENT,
    Gated(WITHIN, gate=CONSISTENT),
)


def holds(check, **block):
    return passes(check, Answer(block))


def test_an_interval_holds_its_ends():
    inside = [each for each in (0.999, 1, 1.0, 2, 2.001) if holds(WITHIN, average=each)]
    assert inside == [1, 1.0, 2]


@pytest.mark.parametrize("value", ["1.5", True, None, [1.5], {"average": 1.5}, 10**400])
def test_what_is_not_a_number_is_in_no_interval(value):
    assert not holds(WITHIN, average=value)


def test_a_count_is_equal_as_a_number_and_not_as_text():
    values = [3, 3.0, "3", 3.5, True, None]
    assert [holds(THREE, counts={"1.png": value}) for value in values] == [True, True] + [False] * 4


def test_text_and_truth_are_equal_in_kind_too():
    assert holds(ValueEquals(("task",), "a"), task="a")
    assert not holds(ValueEquals(("task",), "1"), task=1)
    assert holds(ValueEquals(("flag",), True), flag=True)
    assert not holds(ValueEquals(("flag",), True), flag=1)


@pytest.mark.parametrize("block", [{}, {"counts": 3}, {"counts": [3]}, {"counts": {"2.png": 3}}])
def test_a_path_that_leads_nowhere_fails(block):
    assert not holds(THREE, **block)


def test_the_second_copy_needs_two():
    assert holds(LISTS, numbers=[1.5, 9, 1.45])
    assert not holds(LISTS, numbers=[1.5, 9])
    assert not holds(LISTS, numbers=[1.5, "1.5"])


def test_precision_counts_pairs():
    assert holds(PRECISE, numbers=[1.0])
    assert holds(PRECISE, numbers=[1.0, 7.0])
    assert not holds(PRECISE, numbers=[1.0, 7.0, 8.0])
    assert holds(PRECISE, numbers=[1.0, 1.0, 1.0, 1.0])
    assert not holds(PRECISE, numbers=[1.0] * 5)
    assert not holds(PRECISE, numbers=[])


def test_recall_counts_pairs():
    assert holds(COMPLETE, numbers=[1.004, 2.999])
    assert not holds(COMPLETE, numbers=[2.0, 2.0, 2.0, 2.0])
    assert not holds(COMPLETE, numbers=[])
    assert not holds(NumberRecall(("numbers",), ()), numbers=[])


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_pairing_within_a_tolerance_agrees_with_exact_pairing(listed, values):
    for kind in (NumberPrecision, NumberRecall):
        for share in (0.3, 0.5, 1.0):
            exact = kind(("numbers",), tuple(map(float, values)), share)
            near = kind(("numbers",), tuple(map(float, values)), share, 0.4)
            assert holds(exact, numbers=listed) == holds(near, numbers=listed)


def test_half_of_the_checks_is_half():
    gate = ShareOf(tuple(ValueEquals(("counts", str(each)), each) for each in range(3)))
    assert not holds(gate, counts={"0": 0})
    assert holds(gate, counts={"0": 0, "1": 1})
    assert not holds(ShareOf(()), counts={})


def test_a_mean_is_that_of_the_answers_own_counts():
    assert holds(CONSISTENT, average=1.5, counts={"a": 1, "b": 2})
    assert not holds(CONSISTENT, average=1.6, counts={"a": 1, "b": 2})
    assert not holds(CONSISTENT, average=1.5, counts={"a": 1, "b": 2, "c": 1.5})
    assert not holds(CONSISTENT, average=1.5, counts={"a": 1, "b": "2"})
    assert not holds(CONSISTENT, average=1.5, counts={"a": 10**400, "b": 1})
    assert not holds(CONSISTENT, average=1.5, counts={"a": 1.7e308, "b": 1.7e308})
    assert not holds(MeanAgrees(("average",), ("counts",), 0, 1.0), average=0, counts={})


def test_a_gate_and_its_check_must_both_hold():
    gated = Gated(WITHIN, gate=THREE)
    assert holds(gated, average=1.5, counts={"1.png": 3})
    assert not holds(gated, average=1.5, counts={"1.png": 4})
    assert not holds(gated, average=2.5, counts={"1.png": 3})


@pytest.mark.parametrize("check", EVERY_CHECK, ids=lambda check: type(check).__name__)
def test_no_answer_meets_no_check(check):
    assert not passes(check, None)
    assert not passes(check, Answer({}))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["3", "three", ""]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["1.png", "a"]), inner),
    max_leaves=12,
)
blocks = st.dictionaries(st.sampled_from(["average", "counts", "numbers", "flag"]), values)


@given(blocks)
def test_no_answer_makes_a_check_raise(block):
    for check in EVERY_CHECK:
        assert passes(check, Answer(block)) in (True, False)


def test_a_check_is_plain_json_with_its_kind():
    assert check_as_json(Gated(WITHIN, gate=ShareOf((THREE,)))) == cases(__file__, "json")
    for check in EVERY_CHECK:
        written = check_as_json(check)
        assert json.loads(json.dumps(written, allow_nan=False)) == written


def test_values_that_the_truth_holds_are_referred_to():
    here = check_as_json(NumberRecall(("numbers",), (1.0, 2.0)))
    there = check_as_json(NumberRecall(("numbers",), (1.0, 2.0), source="numbers.value"))
    assert here["values"] == [1.0, 2.0]
    assert "source" not in here
    assert there["source"] == "numbers.value"
    assert "values" not in there

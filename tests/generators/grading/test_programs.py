"""Checks of what the program of an answer prints, and where its source is taken from."""

from __future__ import annotations

import pytest

from generators.errors import ChildLimitError
from generators.grading.answer import Answer
from generators.grading.checks import Gated, ShareOf, ValueEquals
from generators.grading.programs import (
    MAX_PROGRAM_BYTES,
    Prints,
    hidden_inputs,
    needs_runs,
    program_of,
)
from generators.grading.rubric import Metarubric, check_answer, fill_rubric
from generators.task import TruthTable
from generators.validation.programs import run_trusted, with_printed
from tests.cases import cases

NAMED = ValueEquals(("task",), "t")
RUBRIC = fill_rubric(
    (
        Metarubric("named", "IF", 1.0, "It names the task.", NAMED),
        Metarubric(
            "printed",
            "SR",
            1.0,
            "Given {given}, it prints {right}.",
            lambda row: Gated(Prints(str(row["given"]), str(row["right"])), Prints("0", "0")),
            "tests",
        ),
    ),
    {"tests": TruthTable(("given", "right"), (("1", "2"), ("3", "6"), ("0", "0")))},
)


def test_the_hidden_inputs_are_those_of_all_checks_inside_each_other_once() -> None:
    assert hidden_inputs(RUBRIC) == ("1", "0", "3")
    assert needs_runs(ShareOf((NAMED, Gated(NAMED, Prints("7", "8")))))
    assert not needs_runs(ShareOf((NAMED, Gated(NAMED, NAMED))))
    assert not needs_runs(None)


def verdicts(source: str) -> tuple[bool | None, ...]:
    return check_answer(RUBRIC, with_printed(RUBRIC, Answer({"task": "t", "program": source})))


def test_what_a_program_prints_decides() -> None:
    assert verdicts("print(2 * int(input()))") == (True, True, True, True)
    assert verdicts("print(int(input()) + 1)") == (True, False, False, False), "the gate is shut"
    assert verdicts("n = int(input())\nprint(6 if n else 0)") == (True, False, True, True)


@pytest.mark.parametrize("source", cases(__file__, "failing"))
def test_a_program_that_fails_or_prints_something_else_passes_nothing(source: str) -> None:
    assert verdicts(source) == (True, False, False, False)


def test_a_program_that_was_not_run_passes_nothing() -> None:
    answer = Answer({"task": "t", "program": "print(2 * int(input()))"})
    assert check_answer(RUBRIC, answer) == (True, False, False, False)
    assert with_printed(RUBRIC, None) is None


def test_the_program_stands_in_the_block_or_in_the_file_that_it_names() -> None:
    files = {"mine.py": b"print(1)"}
    assert program_of(Answer({"program": "print(2)", "program_file": "mine.py"}, files)) == (
        b"print(2)"
    )
    assert program_of(Answer({"program_file": "mine.py"}, files)) == b"print(1)"
    assert program_of(Answer({"program_file": "other.py"}, files)) is None
    assert program_of(Answer({"program": ["print(2)"], "program_file": 3}, files)) is None
    assert program_of(Answer({"program": "#" * (MAX_PROGRAM_BYTES + 1)})) is None
    assert program_of(Answer({"program": "print('\ud800')"})) == b"print('?')"


def test_a_program_that_does_not_end_is_ended_and_the_next_one_runs() -> None:
    with pytest.raises(ChildLimitError, match="more than 1 s"):
        run_trusted("while True: pass", ("",), 1)
    assert run_trusted("print(input())", ("a", "b"), 60) == ({"a": "a\n", "b": "b\n"}, None)
    assert run_trusted("print(1)\n1 / 0", ("",), 60) == ({}, "ZeroDivisionError: division by zero")


def test_files_and_what_was_printed_stand_side_by_side() -> None:
    answer = Answer({}).with_printed({"1": "2\n"}).with_files({"a": b"b"})
    assert (answer.read("a"), dict(answer.printed)) == (b"b", {"1": "2\n"})

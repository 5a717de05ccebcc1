"""program_repair: the faults, the examples that single out a repair, and the hidden tests."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from generators.attackers import seen_files
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer
from generators.ladder.program_repair import FAMILY
from generators.ladder.program_repair.attackers import ATTACKERS, NOISY
from generators.ladder.program_repair.parameters import (
    BY_DIFFICULTY,
    EXAMPLES,
    MOST_EXAMPLES,
    PROGRAM_FILE,
)
from generators.ladder.program_repair.rubric import make_answer
from generators.ladder.program_repair.sample import iterate_calls
from generators.ladder.program_repair.solver import (
    edits,
    meets,
    read_examples,
    repairs,
    split_functions,
)
from generators.task import DIFFICULTIES, TaskInstance
from generators.validation.programs import with_printed
from generators.validation.scores import BEYOND_INSTRUCTIONS, score_answer
from generators.validation.validate import public_seeds

SEEDS = 8


@cache
def instances(difficulty: str) -> tuple[TaskInstance, ...]:
    return tuple(FAMILY.generate(difficulty, seed) for seed in public_seeds(SEEDS))


def text_of(instance: TaskInstance, path: str) -> str:
    return {asset.path: asset.data.decode() for asset in instance.brief.assets}[path]


def right_of(instance: TaskInstance) -> str:
    return str(instance.truth.table("program").column("right")[0])


def earned(instance: TaskInstance, program: str) -> float:
    return score_answer(instance, Answer(make_answer(program)), BEYOND_INSTRUCTIONS)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_faults_are_single_edits_of_as_many_functions_as_stated(difficulty: str) -> None:
    parameters = BY_DIFFICULTY[difficulty]
    for instance in instances(difficulty):
        faulty = split_functions(text_of(instance, PROGRAM_FILE))
        right = split_functions(right_of(instance))
        assert list(faulty) == list(right)
        assert len(faulty) == parameters.functions + parameters.combined
        changed = [name for name in faulty if faulty[name] != right[name]]
        assert len(changed) == parameters.faults
        assert all(faulty[name] in edits(right[name]) for name in changed)
        assert all(_doc(faulty[name]) == _doc(right[name]) for name in changed)


def _doc(function: str) -> str | None:
    definition = ast.parse(function).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_an_unrepaired_program_passes_no_hidden_test(difficulty: str) -> None:
    for instance in instances(difficulty):
        assert earned(instance, text_of(instance, PROGRAM_FILE)) == 0.0
        assert earned(instance, right_of(instance)) == 1.0


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_examples_state_what_is_right_show_each_fault_and_hide_the_tests(difficulty: str) -> None:
    for instance in instances(difficulty):
        text = text_of(instance, EXAMPLES)
        calls = {call.given for call in iterate_calls(text)}
        tests = instance.truth.table("tests")
        assert not calls & {str(given) for given in tests.column("given")}
        faulty, examples = split_functions(text_of(instance, PROGRAM_FILE)), read_examples(text)
        right = split_functions(right_of(instance))
        assert set(examples) == set(right)
        others: dict[str, object] = {}
        for name, function in right.items():
            assert meets(name, function, others, examples[name])
            if faulty[name] != function:
                assert not meets(name, faulty[name], others, examples[name])
                assert len(examples[name]) <= MOST_EXAMPLES
            exec(function, others)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_every_edit_that_meets_the_examples_passes_the_hidden_tests(difficulty: str) -> None:
    """So that there is one repair, though there are many ways to write it."""
    for instance in instances(difficulty)[:2]:
        source = text_of(instance, PROGRAM_FILE)
        examples = read_examples(text_of(instance, EXAMPLES))
        first = repairs(source, examples)
        assert len(first) >= BY_DIFFICULTY[difficulty].faults
        for name, (wrong, _) in first.items():
            tests = [
                call
                for call in _tests(instance)
                if call[0].partition(" ")[0] == name and "(" in wrong
            ]
            cases = [
                (tuple(json.loads(given.partition(" ")[2])), json.loads(printed))
                for given, printed in tests
            ]
            if name not in {str(row) for row in instance.truth.table("tests").column("function")}:
                continue
            for edit in edits(wrong):
                if meets(name, edit, {}, examples[name]):
                    assert meets(name, edit, {}, cases)


def _tests(instance: TaskInstance) -> list[tuple[str, str]]:
    rows = instance.truth.table("tests").records()
    return [(str(row["given"]), str(row["printed"])) for row in rows]


def lost_functions(instance: TaskInstance, line: str) -> list[str]:
    """The functions of the tests that a right program loses when this line breaks it."""
    spoilt = (
        "import sys, io\nline = sys.stdin.readline()\n"
        f"if line.startswith({line!r}):\n    print('spoilt')\n    sys.exit()\n"
        "sys.stdin = io.StringIO(line)\n"
    )
    answer = Answer(make_answer(spoilt + right_of(instance)))
    verdicts = check_answer(instance.rubric, with_printed(instance.rubric, answer))
    tests = instance.truth.table("tests").records()
    return [
        str(test["function"])
        for test, verdict in zip(tests, verdicts[2:], strict=True)
        if not verdict
    ]


def test_a_repair_that_breaks_what_was_right_loses_the_tests_of_its_function() -> None:
    instance = instances("easy")[0]
    row = instance.truth.table("tests").records()[0]
    lost = lost_functions(instance, str(row["kept"]))
    assert lost
    assert set(lost) == {row["function"]}


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_to_break_a_function_without_a_fault_costs_its_share_of_the_tests(difficulty: str) -> None:
    instance = instances(difficulty)[1]
    faulty = split_functions(text_of(instance, PROGRAM_FILE))
    tests = instance.truth.table("tests").records()
    groups = {str(test["function"]): str(test["other"]).partition(" ")[0] for test in tests}
    right = set(groups.values())
    assert len(right) == BY_DIFFICULTY[difficulty].functions - BY_DIFFICULTY[difficulty].faults
    for name in right:
        assert faulty[name] == split_functions(right_of(instance))[name]
        guarded = [function for function, other in groups.items() if other == name]
        lost = lost_functions(instance, f"{name} ")
        assert set(lost) == set(guarded)
        assert len(lost) == len(guarded) * BY_DIFFICULTY[difficulty].tests


def test_the_program_prints_the_same_in_a_process_of_its_own(tmp_path: Path) -> None:
    instance = instances("hard")[1]
    program = tmp_path / "program.py"
    program.write_text(right_of(instance))
    for given, printed in _tests(instance)[::9]:
        ended = subprocess.run(
            [sys.executable, "-I", str(program)],
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.strip() == printed


@pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda attacker: attacker.name)
def test_shortcuts_earn_next_to_nothing(attacker) -> None:
    for difficulty in DIFFICULTIES:
        for instance in instances(difficulty)[:2]:
            seen = seen_files(instance.brief.assets, attacker.access)
            answer = Answer(dict(attacker.attack(seen)))
            assert score_answer(instance, answer, BEYOND_INSTRUCTIONS) <= 0.15


def test_a_noisy_solver_repairs_some_faults_and_breaks_nothing() -> None:
    able, _, _, weak = NOISY
    scores = {
        solver.name: [
            earned(
                instance,
                str(
                    solver.solve(
                        {asset.path: asset.data for asset in instance.brief.assets},
                        seed.child("noise").rng(),
                    )["program"]
                ),
            )
            for seed, instance in zip(public_seeds(SEEDS), instances("medium"), strict=True)
        ]
        for solver in (able, weak)
    }
    assert sum(scores[able.name]) > sum(scores[weak.name]) > 0

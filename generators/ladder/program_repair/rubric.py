"""The form of the answer, what earns marks, and guesses that must not."""

from __future__ import annotations

from typing import Any

from generators.family import TEXT, answer_schema, form_criteria
from generators.grading.checks import Gated
from generators.grading.programs import Prints
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric
from generators.ladder.program_repair.parameters import NAME, Parameters
from generators.task import GroundTruth

ANSWER_SCHEMA = answer_schema(
    NAME,
    {"program": TEXT, "program_file": TEXT},
    required=["task"],
    anyOf=[{"required": ["program"]}, {"required": ["program_file"]}],
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth: one for each hidden test."""
    tables = dict(truth.tables)
    tests = Metarubric(
        "hidden_tests",
        "SR",
        10.0,
        "Given the line `{given}`, the repaired program prints `{printed}`.",
        _repaired,
        source="tests",
        criteria=len(tables["tests"].rows),
    )
    return fill_rubric((*form_criteria(NAME, ANSWER_SCHEMA, 0.2), tests), tables)


def _repaired(row: Row) -> Gated:
    """What a fault breaks is right; what it does not break in the same function still is, and so
    is a function without a fault."""
    repaired = Prints(str(row["given"]), str(row["printed"]))
    kept = Prints(str(row["kept"]), str(row["kept_printed"]))
    return Gated(Gated(repaired, kept), Prints(str(row["other"]), str(row["other_printed"])))


def make_answer(program: str) -> dict[str, Any]:
    """The answer block that gives this program."""
    return {"task": NAME, "program": program}


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return make_answer(str(truth.table("program").column("right")[0]))


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, every number in reach, the list itself, and its sum."""
    read = "import json, sys\nvalues = json.loads(sys.stdin.readline().partition(' ')[2])\n"
    return {
        "empty": {},
        "everything": make_answer("print(list(range(-999, 1000)))\n"),
        "prior": make_answer("print(0)\n"),
        "echo": make_answer(f"{read}print(values)\n"),
        "sum": make_answer(f"{read}print(sum(values))\n"),
    }

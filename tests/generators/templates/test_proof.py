"""A question is proved: what never matches is an error, and what weakens an answer a warning."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from generators.templates.check import check_text
from generators.templates.functions import find_matches
from generators.templates.functions.base import OpenFile
from tests.cases import cases

CSV = cases(__file__, "csv")
STAFF = cases(__file__, "staff")
JSON = {
    "type": "create_json",
    "target_file": "{{artifacts}}/{{entity1}}.json",
    "content": {"schema": STAFF},
}
XML = cases(__file__, "xml")
SQLITE = cases(__file__, "sqlite")
SANDBOXES = {"csv": CSV, "json": JSON, "xml": XML, "sqlite": SQLITE}


def call(name: str, arguments: str) -> str:
    return f"{{{{{name}:{arguments}:TARGET_FILE}}}}"


def sql(query: str) -> str:
    return call("sqlite_query", query)


def report(key: str, sandbox: dict[str, Any], ask: str | None = None, **more: Any) -> Any:
    """The report on a question with this key and these files."""
    path = sandbox["target_file"]
    question = {
        "question_id": 1,
        "samples": 3,
        "template": f"What is asked of {path}? Reply with it alone." if ask is None else ask,
        "scoring_type": "stringmatch",
        "expected_response": key,
        "sandbox_setup": sandbox,
    } | more
    kept = {name: value for name, value in question.items() if value is not None}
    return check_text(yaml.safe_dump({"tests": [kept]}, sort_keys=False, width=10**6), "t.yml")


def errors(*of: Any, **more: Any) -> str:
    found = report(*of, **more)
    assert found.holds == (not found.errors)
    assert all(question.faults for question in found.questions) == bool(found.errors)
    return "\n".join(problem.text("t.yml") for problem in found.errors)


def warnings(*of: Any, **more: Any) -> str:
    found = report(*of, **more)
    assert found.holds, found.errors
    return "\n".join(problem.what for problem in found.warnings)


# --- the five questions that were passed, and what is said of each


def test_the_size_of_a_list_is_no_field() -> None:
    found = errors(call("json_count_where", "$.employees[?@.skills.size > 5]"), JSON)
    assert found.startswith("t.yml:6: tests[0].expected_response: `@.skills.size` leads to nothing")
    assert "json_count" in found


def test_an_element_of_another_name() -> None:
    found = errors(call("xpath_count", "//book"), XML)
    assert "t.yml:6: " in found
    assert "`//book` leads to nothing in any of 200 samples" in found
    assert "item" in found


EDIT = cases(__file__, "edit")


def edit(selector: str, value: str = "{{entity2}}") -> dict[str, Any]:
    return {
        "edit_verification": {"target_changes": [{"selector": selector, "expected_value": value}]}
    }


def test_a_misspelt_selector() -> None:
    path = JSON["target_file"]
    ask = f"Set the company of {path} to {{{{entity2}}}}."
    wrong = errors("", JSON, ask, **EDIT, **edit("$.employees[*].nmae.x"))
    assert "`$.employees[*].nmae.x` leads to nothing in any of 200 samples" in wrong
    near = errors("", JSON, ask, **EDIT, **edit("$.compnay"))
    assert "`$.compnay` leads to no key that is there" in near
    assert "did you mean 'company'?" in near
    assert errors("", JSON, ask, **EDIT, **edit("$.company")) == ""
    added = edit("$.reviewer")
    assert "does not name the one" in warnings("", JSON, ask, **EDIT, **added)
    asked = f"Add reviewer to {path}, with {{{{entity2}}}}."
    assert warnings("", JSON, asked, **EDIT, **added) == ""


def test_an_edit_that_few_samples_need_is_warned_of() -> None:
    path = JSON["target_file"]
    rare = edit("$.employees[?(@.age == 44)].name")
    found = warnings("", JSON, f"Set in {path} the name of 44 year olds.", **EDIT, **rare)
    assert "the file is right without any edit" in found


def test_an_answer_that_is_constant() -> None:
    found = errors(call("csv_count", "ID"), CSV)
    assert "the answer is '40' in all of 200 samples, though a function computes it" in found


def test_a_literal_that_is_no_value_of_its_column() -> None:
    for key, sandbox in (
        (call("csv_sum_where", "PAY:DEPT:==:Enginering"), CSV),
        (call("csv_sum_where", "PAY:DEPT:!=:Enginering"), CSV),
        (sql("SELECT SUM(pay) FROM staff s WHERE s.dept = 'Enginering'"), SQLITE),
        (sql("SELECT SUM(pay) FROM staff WHERE dept NOT IN ('Sales', 'Enginering')"), SQLITE),
        (call("json_count_where", "$.employees[?dept==Enginering or age>60]"), JSON),
    ):
        found = errors(key, sandbox)
        assert "'Enginering' in `" in found, (key, found)
        assert "is no value that stands there" in found
        assert "did you mean 'Engineering'? known: Engineering, " in found


# --- more that never matches


@pytest.mark.parametrize(("key", "sandbox", "words"), cases(__file__, "never_matches"))
def test_what_never_matches_is_an_error(key: str, sandbox: str, words: str) -> None:
    found = errors(call(*key.split(":", 1)), SANDBOXES[sandbox])
    assert words in found, found
    assert found.startswith("t.yml:6: ")


@pytest.mark.parametrize(("key", "sandbox"), cases(__file__, "good_keys"))
def test_a_good_key_has_no_error(key: str, sandbox: str) -> None:
    assert errors(call(*key.split(":", 1)), SANDBOXES[sandbox]) == ""


# --- warnings


def test_equal_rows_that_decide_an_answer_are_warned_of() -> None:
    ordered = "{{{{sqlite_query:SELECT who FROM staff ORDER BY {}:TARGET_FILE}}}}"
    assert "equal under ORDER BY" in warnings(ordered.format("age DESC"), SQLITE)
    assert "equal under ORDER BY" not in warnings(ordered.format("age DESC, id"), SQLITE)
    oldest = sql("SELECT age FROM staff ORDER BY age DESC")
    assert "equal under ORDER BY" not in warnings(oldest, SQLITE), "equal rows, one answer"


def test_files_that_the_question_does_not_name_are_warned_of() -> None:
    key = call("csv_sum", "PAY")
    assert "the file that the answer is read from is not named" in warnings(key, CSV, "The sum?")
    folder = {**CSV, "target_file": "{{artifacts}}/data/{{entity1}}.csv"}
    assert warnings(key, folder, "Add up PAY in the file in {{artifacts}}/data.") == ""
    written = {
        "scoring_type": "readfile_stringmatch",
        "expected_response": None,
        "file_to_read": "{{artifacts}}/total.txt",
        "expected_content": key,
    }
    ask = f"Add up PAY in {CSV['target_file']} and write it to {{{{artifacts}}}}/"
    assert "the answer's file is not named" in warnings(key, CSV, f"{ask}sum.txt", **written)
    assert warnings(key, CSV, f"{ask}total.txt", **written) == ""


def test_floats_in_full_are_warned_of_and_rounded_ones_are_not() -> None:
    sevenths = {**CSV, "content": {**CSV["content"], "rows": 35}}
    assert "many decimals" in warnings(call("csv_avg", "PAY"), sevenths)
    assert warnings("{{math_round:{{csv_avg:PAY:TARGET_FILE}}:2}}", sevenths) == ""


def test_a_bound_that_everything_passes_is_warned_of() -> None:
    assert "`AGE > 5` holds for every value" in warnings(call("csv_sum_where", "PAY:AGE:>:5"), CSV)


def test_a_guessable_answer_has_an_interval() -> None:
    assert "95 % interval" in warnings(call("csv_count_where", "ID:AGE:>:68"), CSV)


def test_what_a_call_meets_is_the_same_in_number_for_every_file() -> None:
    path = "$.a[?x==1 and y>2].b"
    for value in ({"a": [{"x": 1, "y": 3, "b": 4}]}, {"a": []}, {"b": 1}):
        file = OpenFile("f.json", json.dumps(value).encode())
        assert len(find_matches("json_count", [path], file)) == 7

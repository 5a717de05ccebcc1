"""Checking a template finds every defect before anything runs, and says what is guessable."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from time import process_time

import pytest

from generators.errors import TemplateError
from generators.templates.check import (
    GUESSABLE,
    SAMPLES,
    TemplateReport,
    check_text,
    constant_guess,
)
from generators.templates.family import template_family
from generators.templates.language.data_types import POOLS
from generators.templates.language.parse import read_template
from generators.templates.library import NAMES, library_text
from tests.cases import cases

TABLE = cases(__file__, "table")
DATABASE = cases(__file__, "database")


def asked(expected: str, template: str = "Say it", samples: int = 3) -> str:
    return (
        f"tests:\n- question_id: 1\n  samples: {samples}\n  template: {json.dumps(template)}\n"
        f"  scoring_type: stringmatch\n  expected_response: {json.dumps(expected)}\n"
    )


def errors_of(report: TemplateReport) -> list[str]:
    return [problem.text("t.yml") for problem in report.errors]


@pytest.mark.parametrize("name", NAMES)
def test_the_library_holds(name: str) -> None:
    report = check_text(library_text(name), f"{name}.yml")
    assert report.errors == ()
    assert report.holds
    assert all(question.simulated == SAMPLES for question in report.questions)


@pytest.mark.parametrize("text", [TABLE, DATABASE])
def test_a_sound_template_has_no_error(text: str) -> None:
    assert errors_of(check_text(text, "t.yml")) == []


@pytest.mark.parametrize(("template", "old", "new", "line", "words"), cases(__file__, "defects"))
def test_each_defect_is_found_at_its_line(
    template: str, old: str, new: str, line: int, words: str
) -> None:
    text = {"table": TABLE, "database": DATABASE}[template]
    assert old in text
    found = errors_of(check_text(text.replace(old, new, 1), "t.yml"))
    about = [each for each in found if words in each]
    assert about, found
    assert about[0].startswith(f"t.yml:{line}: "), about[0]


def test_the_same_file_has_the_same_report() -> None:
    assert check_text(TABLE, "t.yml") == check_text(TABLE, "t.yml")


def test_errors_of_form_and_of_placeholders_come_together() -> None:
    text = TABLE.replace("samples: 3", "sampels: 3").replace("Sum X of", "{{entitty1}} {{foo:1}}")
    text = text.replace("[salary, department]", "[salry, deprtment]").replace("csv_sum", "csv_smu")
    found = errors_of(check_text(text, "t.yml"))
    for words in ("'samples'", "entitty1", "foo", "'salary'", "'department'", "'csv_sum'"):
        assert any(words in each for each in found), (words, found)
    assert found == sorted(found, key=lambda each: int(each.split(":")[1]))


def test_a_nested_call_is_checked_inside() -> None:
    found = errors_of(
        check_text(TABLE.replace("csv_sum:X", "csv_sum:{{csv_cel:0:0:TARGET_FILE}}"), "t")
    )
    assert any("did you mean 'csv_cell'?" in each for each in found), found


def test_a_literal_answer_is_guessable() -> None:
    (question,) = check_text(asked("forty-two"), "t.yml").questions
    assert (question.most_frequent, question.constant_guess, question.distinct) == (1.0, 1.0, 1)
    report = check_text(asked("forty-two"), "t.yml")
    assert report.holds
    assert any("guessable" in problem.what for problem in report.warnings)
    assert any("1 distinct instances for 3 samples" in each.what for each in report.warnings)


def test_a_coin_is_guessable_and_a_wide_number_is_not() -> None:
    coin, wide = (
        check_text(asked(f"{{{{number1:1:{top}}}}}", f"{{{{number1:1:{top}}}}}"), "t.yml")
        for top in (2, 10**6)
    )
    assert 0.35 < (coin.questions[0].constant_guess or 0) < 0.65
    assert (coin.questions[0].most_frequent or 0) > GUESSABLE
    assert (wide.questions[0].most_frequent or 1) <= GUESSABLE
    assert not wide.warnings
    assert wide.questions[0].key_in_prompt
    assert not check_text(asked("{{number1:1:1000000}}"), "t.yml").questions[0].key_in_prompt


def test_an_empty_answer_is_warned_of() -> None:
    text = TABLE.replace("csv_sum:X", "csv_column:X").replace("{{number1:5:9}}", "0")
    report = check_text(text, "t.yml")
    assert any("empty" in problem.what for problem in report.warnings), report


def test_sizes_are_counted_as_the_paper_counts_them() -> None:
    """Section 5.2: n variables of a pool of k words have k**n values; tests multiply."""
    words = len(POOLS["default"])
    text = asked("{{entity1}} {{entity2}} {{entity1}} {{number1:10:19}}", samples=20)
    report = check_text(text, "t.yml")
    (question,) = report.questions
    assert 10 ** (question.log10_variables or 0) == pytest.approx(words**2 * 10)
    assert question.log10_data == 0
    assert report.log10_tests == pytest.approx(20 * (question.log10_variables or 0))


def test_data_is_counted_beside_variables() -> None:
    (question,) = check_text(TABLE.replace("{{number1:5:9}}", "10"), "t.yml").questions
    # ten rows of a salary of 120,001 whole numbers and one of at least ten departments
    assert (question.log10_data or 0) > 10 * (5.0 + 1.0)


@pytest.mark.parametrize(
    ("draw", "low", "high"),
    [
        (lambda dice: "same", 1.0, 1.0),
        (lambda dice: str(dice.randrange(4)), 0.15, 0.36),
        (lambda dice: str(dice.random()), 0.0, 0.0),
    ],
)
def test_the_constant_guess_is_learnt_on_one_half_and_tried_on_the_other(
    draw: Callable[[random.Random], str], low: float, high: float
) -> None:
    dice = random.Random(5)
    assert low <= constant_guess([draw(dice) for _ in range(SAMPLES)]) <= high


@pytest.mark.parametrize(("name", "said"), cases(__file__, "names"))
def test_a_file_name_that_gives_no_task_name_is_told_as_prepare_tells_it(
    name: str, said: str
) -> None:
    first, second = check_text(TABLE.replace("csv_sum:X", "csv_sum:Y"), name).errors
    assert said in first.what
    assert "'Y'" in second.what, "and everything else beside it"
    with pytest.raises(TemplateError, match=said):
        template_family(name, TABLE)


def test_a_file_that_is_no_yaml_is_one_error() -> None:
    report = check_text("tests: [", "t.yml")
    assert len(report.errors) == 1
    assert not report.holds
    assert report.questions == ()


def test_a_report_is_plain_json() -> None:
    found = json.loads(json.dumps(check_text(library_text("past"), "past").as_json()))
    assert found["holds"] is True
    assert [each["question_id"] for each in found["questions"]][-1] == "402"
    assert set(found["questions"][0]) == set(cases(__file__, "facts"))


def test_a_file_has_its_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.templates.check.MOST_SECONDS_IN_ALL", 0.0)
    report = check_text(library_text("past"), "past.yml")
    assert report.holds
    assert {each.simulated for each in report.questions} == {1}
    assert {each.most_frequent for each in report.questions} == {None}  # one says nothing
    (warning,) = report.warnings
    assert "of 10 questions fewer than 200 samples" in warning.what


def test_very_many_faulty_placeholders_are_counted() -> None:
    report = check_text(asked(" ".join(f"{{{{csv_suum:{n}:x}}}}" for n in range(400))), "my.yml")
    assert len(report.errors) == 201
    assert report.errors[-1].what == "and 200 more errors"


def test_many_components_are_put_in_order_soon() -> None:
    count = 3_000
    made = [
        f"    - {{type: create_files, name: c{n}, target_file: '{{{{artifacts}}}}/{n}', "
        f"content: {{type: custom, content: x}}, depends_on: [{f'c{n + 1}' * (n + 1 < count)}]}}"
        for n in range(count)
    ]
    text = asked("{{entity1}}") + "  sandbox_setup:\n    components:\n" + "\n".join(made)
    before = process_time()
    reading = read_template(text, "my.yml")
    assert process_time() - before < 15  # seconds of CPU; by pairs it took minutes
    assert not reading.errors
    names = [each.name for each in reading.file.questions[0].components]
    assert names == [f"c{n}" for n in reversed(range(count))]
    (error,) = read_template(text.replace("depends_on: []", "depends_on: [c0]"), "my.yml").errors
    assert "in a circle: c0 → c1 → " in error.what
    assert len(error.what) < 200

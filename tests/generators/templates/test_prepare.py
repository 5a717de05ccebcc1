"""From question and seed to a sample: one value a variable, the same bytes, a key that is right."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generators.errors import TemplateError, TemplateLimitError
from generators.seed import Seed
from generators.templates.check import check_text
from generators.templates.components.text_files import draw_tree
from generators.templates.family import template_family
from generators.templates.language.parse import parse_template
from generators.templates.language.placeholders import Scope
from generators.templates.language.variables import NUMBER_KINDS, find_variable
from generators.templates.library import library_text
from generators.templates.prepare import Prepared, precheck_record, prepare
from study.protocol.yaml import read_template
from tests.cases import cases

SEED = Seed(bytes(31) + b"\x07")

CONSISTENT = cases(__file__, "consistent")


def sample(text: str, question: str = "1", seed: Seed = SEED) -> Prepared:
    return prepare(template_family("ours.yml", text).compiled(question), seed)


def test_a_variable_has_one_value_everywhere_in_a_sample():
    made = sample(CONSISTENT)
    gem, rows, who = (
        made.variables[key]
        for key in ("entity1:gems", "number1:5:9:integer", "semantic1:person_name")
    )
    files = {file.path: file.data.decode() for file in made.files}
    table = list(csv.reader(io.StringIO(files[f"artifacts/{gem}.csv"])))
    assert table[0] == ["id", gem]
    assert len(table) - 1 == int(rows)
    assert made.prompt == f"{who} wants {rows} rows of {gem} in artifacts/{gem}.csv"
    assert files[f"artifacts/{gem}.txt"].strip() == f"{rows} of {gem} for {who}"
    assert json.loads(made.key.expected) == {
        "who": who,
        "rows": int(rows),
        "counted": int(rows),
        "note": f"{rows} of {gem} for {who}",
    }
    assert made.before.startswith(f'{{"who": "{who}", "rows": {rows}, "counted": {{{{csv_count')


def test_samples_of_other_seeds_differ_and_of_the_same_do_not():
    family = template_family(*read_template(Path(), "past"))
    for question in family.questions:
        one, again, other = (
            prepare(family.compiled(question), seed) for seed in (SEED, SEED, SEED.child("x"))
        )
        assert (one.prompt, one.files, one.key) == (again.prompt, again.files, again.key)
        assert (one.prompt, one.files) != (other.prompt, other.files)


_DIGEST = cases(__file__, "digest")
# What the library's samples of one seed are, for good: a change is a new version of how they are
# drawn (prepare.VERSION).
_GOLDEN = "d21d1cd1338ee70fd63e8a53eb1dbd430d0b24d725f31342c5a428cbfb42ee20"


def test_the_bytes_are_those_on_record_in_any_process():
    for hash_seed, features in (("0", ""), ("1", "AVX2 AVX512F FMA3 SSE42")):
        environment = {"PYTHONHASHSEED": hash_seed, "NPY_DISABLE_CPU_FEATURES": features}
        ran = subprocess.run(
            [sys.executable, "-c", _DIGEST], env=environment, capture_output=True, text=True
        )
        assert ran.stdout.strip() == _GOLDEN, ran.stderr


@pytest.mark.parametrize("kind", NUMBER_KINDS)
def test_numbers_are_of_their_kind_and_in_their_range(kind: str):
    variable = find_variable("number1", ("1500", "47100", kind))
    assert variable is not None
    drawn = [variable.draw(SEED.child(index).rng()) for index in range(300)]
    step, places = NUMBER_KINDS[kind]
    for text in drawn:
        assert 1500 <= float(text) <= 47100
        assert round(float(text) / float(step), 6).is_integer()
        assert len(text.partition(".")[2]) == places
    assert len(set(drawn)) > 2


def test_the_ends_of_a_range_are_drawn():
    variable = find_variable("number1", ("1", "2"))
    assert variable is not None
    assert {variable.draw(SEED.child(index).rng()) for index in range(40)} == {"1", "2"}


def test_an_expected_structure_is_drawn_as_a_fenced_tree():
    drawn = draw_tree(["artifacts/a/", "artifacts/a/b/x.log", "artifacts/c/README.md"])
    assert drawn.splitlines() == [
        "", "```", "a/", "    b/", "        x.log", "c/", "    README.md", "```",
    ]  # fmt: skip


QUESTION = cases(__file__, "question")


@pytest.mark.parametrize(("expected", "said"), cases(__file__, "no_keys"))
def test_a_key_that_cannot_be_computed_stops_with_question_function_and_reason(expected, said):
    text = QUESTION.format(expected=expected, target="{{artifacts}}/t.csv")
    with pytest.raises(TemplateError) as caught:
        sample(text)
    assert said in str(caught.value)
    assert "question 1" in str(caught.value) or ":" in str(caught.value)


SELDOM = cases(__file__, "seldom")


def test_a_draw_without_a_key_is_drawn_again_and_recorded():
    family = template_family("seldom.yml", SELDOM)
    made = [prepare(family.compiled("1"), SEED.child(index)) for index in range(40)]
    assert all(b"pending" in each.files[0].data for each in made)
    redraws = [each.redraws for each in made]
    assert 0 in redraws
    assert max(redraws) > 0
    assert precheck_record(next(each for each in made if each.redraws))["redraws"] > 0
    without = redraws.index(max(redraws))
    with pytest.raises(TemplateError, match=r"question 1: \{\{csv_avg_where"):
        prepare(family.compiled("1"), SEED.child(without), attempts=1)
    instance = family.generate("1", SEED)
    assert ("redraws", prepare(family.compiled("1"), SEED).redraws) in instance.spec.parameters


@pytest.mark.parametrize(("call", "said"), cases(__file__, "bounds"))
def test_a_bound_that_is_struck_is_the_templates_and_nothing_is_drawn_again(call: str, said: str):
    text = ASKED.replace("QUERY", call)
    compiled = template_family("ours.yml", text).compiled("1")
    with pytest.raises(TemplateLimitError, match=rf"^ours: question 1: \{{\{{sqlite_query.*{said}"):
        prepare(compiled, SEED)
    report = check_text(text, "ours.yml")
    (problem,) = report.errors
    assert re.search(rf"{said}.*in sample 1, and no other is tried", problem.what)
    assert not report.warnings


ASKED = cases(__file__, "asked")
CLASHING = cases(__file__, "clashing")


@pytest.mark.parametrize("scoring", cases(__file__, "clashes"))
def test_one_name_is_never_that_of_a_file_and_of_a_folder(scoring):
    compiled = template_family("ours.yml", CLASHING.format(scoring=scoring)).compiled("1")
    drawn = [prepare(compiled, SEED.child(number)) for number in range(100)]
    assert any(each.redraws for each in drawn)
    for each in drawn:
        paths = {file.path for file in each.files} | set(each.key.paths)
        assert not paths & {path.rpartition("/")[0] for path in paths}
        assert {path.count("/") for path in paths if path.endswith("/b")} == {2}


@pytest.mark.parametrize("target", ["../t.csv", "/etc/t.csv", "{{artifacts}}/../../t.csv"])
def test_a_path_that_leads_out_is_refused_before_anything_is_made(target):
    with pytest.raises(TemplateError):
        sample(QUESTION.format(expected="x", target=target))


def test_a_drawn_path_that_leads_out_is_refused_too():
    """No data type of ours holds a slash; a later one might."""
    from generators.templates.prepare import _confined

    for path in ("artifacts/../x", "/x", "~/x", "a\\..\\x", "a\0b"):
        with pytest.raises(TemplateError, match="leads out"):
            _confined(path)


def test_a_precheck_line_has_the_known_keys():
    family = template_family(*read_template(Path(), "past"))
    records = {
        question: precheck_record(prepare(family.compiled(question), SEED, 4))
        for question in family.questions
    }
    for question, record in records.items():
        assert {
            "scoring_type", "question_id", "sample_number", "template", "substituted_question",
        } <= record.keys()  # fmt: skip
        assert (record["question_id"], record["sample_number"]) == (int(question), 4)
        assert "{{" not in record["substituted_question"]
        assert json.loads(json.dumps(record)) == record
    assert records["101"]["files_to_check"][0].endswith(".log")
    assert records["104"]["expected_paths"][0].endswith("/")
    assert records["301"]["file_to_read"] == "artifacts/q301_s4/cust.json"
    assert "{{csv_avg" in records["301"]["expected_content_before_template_functions"]
    assert "{{" not in records["301"]["expected_content"]
    assert records["202"]["sandbox_components"][0]["type"] == "create_files"
    assert set(records["103"]) >= {"entity1", "entity2", "entity3", "expected_response"}


def test_a_scope_without_a_value_says_which():
    from generators.templates.language.placeholders import fill_text, parse_text

    with pytest.raises(TemplateError, match="expected_structure"):
        fill_text(parse_text("{{expected_structure}}"), Scope({}, pytest.fail))


def test_parsing_knows_the_file_that_it_was_given():
    assert parse_template(CONSISTENT, "ours.yml").questions[0].components[0].name == "data"


def test_artifacts_may_be_an_absolute_folder_and_nothing_else_of_the_sample_changes() -> None:
    family = template_family("past.yml", library_text("past"))
    for question in family.questions:
        compiled, root = family.compiled(question), "/srv/run/artifacts"
        own = prepare(compiled, Seed(bytes(32)))
        moved = prepare(compiled, Seed(bytes(32)), artifacts=root)
        assert [(f"/srv/run/{file.path}", file.data) for file in own.files] == [
            (file.path, file.data) for file in moved.files
        ]
        assert moved.prompt.replace(root, "artifacts") == own.prompt
        assert moved.key.file.replace(root, "artifacts") == own.key.file
        assert moved.key.expected == own.key.expected


@pytest.mark.parametrize(
    "path", ["/etc/x", "/srv/run/artifacts/../x", "/srv/run/artifactsx/y", "~/x", "../x"]
)
def test_a_drawn_path_out_of_an_absolute_folder_is_refused(path: str) -> None:
    from generators.templates.prepare import _confined

    with pytest.raises(TemplateError, match="leads out of the sandbox"):
        _confined(path, "/srv/run/artifacts")
    assert _confined("/srv/run/artifacts//a", "/srv/run/artifacts") == "/srv/run/artifacts//a"

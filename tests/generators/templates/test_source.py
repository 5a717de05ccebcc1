"""Template files are read whole: unchanged where they are right, every error at once where not."""

from __future__ import annotations

import json
import time

import pytest

from generators.errors import TemplateError
from generators.templates.language.diagnostics import refusal_of_path
from generators.templates.language.parse import parse_template, read_template
from generators.templates.language.template import TemplateFile
from generators.templates.library import NAMES, library_text
from tests.cases import cases

GOOD = cases(__file__, "good")


def parse(text: str) -> TemplateFile:
    """The file, if all its questions are right."""
    file = parse_template(text, "my.yml")
    assert file.chosen(None) == file.questions
    return file


def test_a_file_is_read_with_its_questions_and_lines() -> None:
    file = parse(GOOD)
    assert file.name == "my"
    assert [question.id for question in file.questions] == ["1", "write-it"]
    assert [component.name for component in file.questions[0].components] == ["other", "table"]
    assert file.questions[0].components[1].place == ("tests", 0, "sandbox_setup", "components", 0)
    assert file.lines[("tests", 1, "file_to_read")] == 22
    assert parse(GOOD).digest == file.digest != parse(GOOD + "\n").digest
    assert parse_template(GOOD.encode(), "my.yml") == file


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    cases(__file__, "each defect is named with its line and what would be right"),
)
def test_each_defect_is_named_with_its_line_and_what_would_be_right(
    old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    with pytest.raises(TemplateError) as caught:
        parse(GOOD.replace(old, new, 1))
    found = [each for each in str(caught.value).splitlines() if words in each]
    assert found, str(caught.value)
    assert found[0].startswith(f"my.yml:{line}:"), found[0]


def test_all_errors_are_told_at_once() -> None:
    text = GOOD.replace("samples: 3", "sample: 3").replace("stringmatch", "strngmatch")
    text = text.replace("rows: 5", "row: 5").replace("{{artifacts}}/x.txt", "/x.txt")
    with pytest.raises(TemplateError) as caught:
        parse(text)
    lines = str(caught.value).splitlines()
    assert len(lines) >= 6
    assert lines == sorted(lines, key=lambda each: int(each.split(":")[1]))
    assert all(each.startswith("my.yml:") for each in lines)


def test_very_many_errors_are_counted() -> None:
    text = "tests:\n" + "".join(f"- {{question_id: {n}}}\n" for n in range(1000))
    assert "and 2800 more errors" in read_template(text, "my.yml").errors[-1].what


@pytest.mark.parametrize("text", ["", "tests: []", "tests: 3", "[]", "just text", "tests:\n- 3\n"])
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError, match=r"my\.yml:[12]: "):
        parse(text)


SINGLE = cases(__file__, "single")


@pytest.mark.parametrize("indent", ["    ", "      "])
def test_rows_and_clutter_may_stand_at_either_level(indent: str) -> None:
    text = SINGLE + f"{indent}rows: 5\n{indent}clutter: {{count: 4}}\n"
    (component,) = parse(text).questions[0].components
    assert component.name == ""
    assert component.content == {"headers": ["name"], "rows": 5}
    assert component.config == {"clutter": {"count": 4}}


@pytest.mark.parametrize("config", ["{clutter: {count: 4, pattern: '*.log'}}", "{count: 4}"])
def test_both_forms_of_config_become_clutter(config: str) -> None:
    (component,) = parse(f"{SINGLE}    config: {config}\n").questions[0].components
    assert component.config["clutter"]["count"] == 4


def test_rows_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(TemplateError, match="rows stands in `content` too"):
        parse(SINGLE + "      rows: 5\n    rows: 6\n")


def test_what_a_component_reads_is_made_before_it() -> None:
    text = GOOD.replace("      depends_on: [other]\n", "")
    text = text.replace("headers: [X]", "headers: ['{{csv_cell:0:0:TARGET_FILE[other]}}']", 1)
    assert [each.name for each in parse(text).questions[0].components] == ["other", "table"]


def test_a_circle_is_shown() -> None:
    text = GOOD.rstrip("\n").replace("rows: 5}\n- ", "rows: 5}\n      depends_on: [table]\n- ")
    with pytest.raises(TemplateError, match="circle: table → other → table"):
        parse(text)


def test_notes_for_people_are_let_be() -> None:
    text = GOOD.replace("  samples: 3", "  description: sums\n  metadata: {level: 3}\n  samples: 3")
    assert len(parse("description: mine\n" + text).questions) == 2


def test_a_key_that_the_scoring_type_does_not_read_is_warned_of() -> None:
    text = GOOD.replace("  samples: 3", "  samples: 3\n  file_to_read: '{{artifacts}}/z'")
    reading = read_template(text, "my.yml")
    assert not reading.errors
    assert reading.file.questions[0].file_to_read is None
    assert "does not read it" in reading.warnings[0].what


def test_aliases_and_merges_are_understood() -> None:
    text = GOOD.replace("content: {headers", "content: &c {headers", 1)
    text = text.replace("content: {headers: [X], header_types: [id], rows: 5}", "content: *c")
    first, second = parse(text).questions[0].components
    assert first.content == second.content == {"headers": ["X"], "header_types": ["id"], "rows": 5}
    merged = text.replace("content: *c", "content: {<<: *c, rows: 9}")
    assert parse(merged).questions[0].components[0].content["rows"] == 9


BOMBS = {
    "100 MB": b"tests:\n" + b"#" * 100_000_000,
    "flow": b"tests: " + b"[" * 3_000_000,
    "blocks": b"- " * 1_500_000,
    "laughs": "\n".join(
        ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 40))]
    ).encode(),
    "merges": "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{f'*a{n - 1}, ' * 9}]}}" for n in range(1, 40))]
    ).encode(),
    "anchors": b"".join(b"- &a%d x\n" % n for n in range(300_000)),
    "aliases": b"- &a x\n" + b"- *a\n" * 700_000,
    "itself": b"tests: &a [*a]",
    "documents": b"---\n" * 900_000,
    "directives": b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(150_000)),
    "binary": bytes(range(256)) * 1000,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_before_they_go_off(bomb: str) -> None:
    before = time.process_time()
    with pytest.raises(TemplateError, match=r"my\.yml:"):
        parse_template(BOMBS[bomb], "my.yml")
    assert time.process_time() - before < 20  # seconds of CPU; without bounds, minutes or no end


def test_a_numeral_without_end_is_text() -> None:
    with pytest.raises(TemplateError, match=r"put it in quotes|whole number"):
        parse(GOOD.replace("samples: 3", "samples: " + "1:" * 200_000 + "1"))


@pytest.mark.parametrize(("value", "right"), cases(__file__, "tags"))
def test_tags_are_refused_where_they_stand(value: str, right: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(GOOD.replace("samples: 3", f"samples: {value}"))
    told = [line for line in str(caught.value).splitlines() if right in line]
    line = GOOD[: GOOD.index("samples: 3")].count("\n") + 1
    assert told
    assert all(each.startswith(f"my.yml:{line}: ") for each in told)


@pytest.mark.parametrize("path", ["{{artifacts}}/{{entity1}}/a b.txt", "x/{{number1:1:9}}.y", "."])
def test_ordinary_paths_are_let_be(path: str) -> None:
    assert refusal_of_path(path) is None


@pytest.mark.parametrize(
    "path", ["", " ", "..", "a/..", "../a", "{{artifacts}}/..", "/a", "a\x00", "d:x", "a" * 300]
)
def test_paths_out_of_the_sandbox_are_refused(path: str) -> None:
    assert refusal_of_path(path) is not None


def test_the_library_is_the_paper_s() -> None:
    past, formats = (parse_template(library_text(name), f"{name}.yml") for name in NAMES[:2])
    ids = [question.id for question in past.questions]
    assert ids == ["101", "102", "103", "104", "201", "202", "301", "302", "401", "402"]
    assert [question.id for question in formats.questions] == ["301", "302", "303", "304"]
    assert {question.samples for question in (*past.questions, *formats.questions)} == {20}
    first, *others = (question.components[0] for question in formats.questions)
    assert all(other.content == first.content for other in others)
    assert past.questions[-1].expected_content == formats.questions[0].expected_content
    assert '"{\\"num_big_orders\\": {{sqlite_query:' in library_text("past")


def test_a_library_name_is_spelt_for_people() -> None:
    with pytest.raises(TemplateError, match="did you mean 'past'"):
        library_text("pasta")


TARGETED = cases(__file__, "targeted")


def test_the_public_type_for_edits_is_read_as_ours() -> None:
    (question,) = parse(TARGETED).questions
    assert (question.scoring_type, question.file_to_read) == (
        "readfile_jsonedit",
        "{{artifacts}}/b.json",
    )
    assert question.expected_content is not None
    assert '{{file_word:1:"{{artifacts}}/w.txt"}}' in question.expected_content  # as written
    filled = question.expected_content.replace('{{file_word:1:"{{artifacts}}/w.txt"}}', "now")
    assert json.loads(filled) == cases(__file__, "edits")


@pytest.mark.parametrize(
    ("old", "new", "said"), cases(__file__, "an edit of another form is refused at its place")
)
def test_an_edit_of_another_form_is_refused_at_its_place(old: str, new: str, said: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(TARGETED.replace(old, new))
    assert said in str(caught.value)

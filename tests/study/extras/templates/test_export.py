"""A template in PICARD's form asks the same questions; what PICARD has no form for is named, and
nothing is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.check import check_text
from generators.templates.family import template_family
from generators.templates.library import NAMES, library_text
from generators.templates.prepare import prepare
from study.extras.templates.export import export_template
from tests.study.cli.program import run

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/template-reference.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
SEED = Seed(bytes(range(32)))


def exported(folder: Path, text: str, name: str = "mine") -> str:
    path = folder / f"{name}.yml"
    path.write_text(text)
    return export_template(str(path), folder / "out").file.read_text()


def refusals(folder: Path, text: str) -> list[str]:
    path = folder / "mine.yml"
    path.write_text(text)
    with pytest.raises(TemplateError) as caught:
        export_template(str(path), folder / "x" / "out")
    assert not (folder / "x").exists()
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def same_samples(before: str, after: str) -> None:
    """Both files ask the same: with one seed, the same question, files and key."""
    first, second = (template_family("mine.yml", text) for text in (before, after))
    assert first.questions == second.questions
    for id in first.questions:
        for number in range(3):
            made = [
                prepare(family.compiled(id), SEED.child(id, number)) for family in (first, second)
            ]
            assert made[0].prompt == made[1].prompt
            assert made[0].key == made[1].key
            assert made[0].files == made[1].files


LIBRARY = {name: library_text(name) for name in sorted(NAMES)}
FORMS = {
    "PICARD needs no rewriting": """
tests:
- question_id: 7
  samples: 3
  template: "Say {{entity1}}."
  scoring_type: stringmatch
  expected_response: "{{entity1}}"
""",
    "strata, spaces, kinds, an empty operator, quotes": """
tests:
- question_id: old
  samples: 3
  for_each: {rows: [20, 40], column: [AGE_YRS, PAY]}
  template: >-
    {{ artifacts }}/{{qs_id}}/{{entity1:default}}.csv: {{number1:20:60:integer}} of {{column}},
    {{number1:20:60}}
  scoring_type: jsonmatch
  expected_response: >-
    [{{csv_count_where: {{column}} : {{column}} : > : {{number1:20:60:integer}} : TARGET_FILE}},
    {{csv_count_where:ID:DEPT::"HR":TARGET_FILE}}]
  sandbox_setup:
    type: create_csv
    target_file: "{{artifacts}}/{{qs_id}}/{{entity1}}.csv"
    rows: 30
    content: {headers: [ID, AGE_YRS, PAY, DEPT]}
    clutter: 2
""",
    "tables out of order, keys, guessed types": """
tests:
- question_id: shop
  samples: 3
  template: "Orders in {{artifacts}}/{{entity1}}.db?"
  scoring_type: stringmatch
  expected_response: "{{sqlite_query:SELECT COUNT(*) FROM orders WHERE buyer > 3:TARGET_FILE}}"
  sandbox_setup:
    type: create_sqlite
    target_file: "{{artifacts}}/{{entity1}}.db"
    content:
      tables:
      - name: orders
        rows: 30
        columns: [{name: buyer, type: integer, data_type: age, foreign_key: people}, when_due]
      - {name: people, rows: 9, columns: [{name: number, type: auto_id}, fullname]}
""",
    "schemas": """
tests:
- question_id: crew
  samples: 3
  template: "The captain in {{artifacts}}/{{entity1}}.json?"
  scoring_type: stringmatch
  expected_response: "{{json_value:$.captain:TARGET_FILE[crew]}}"
  sandbox_setup:
    components:
    - type: create_json
      name: crew
      target_file: "{{artifacts}}/{{entity1}}.json"
      content:
        schema:
          captain: person_name
          kind: {type: {type: literal, value: 5}, size: {type: integer, minimum: 5000}}
          more: {type: object, properties: {a: age}, additional_properties: true}
          code: {type: string, pattern: phone}
          note: {type: string, min_length: 80}
    - type: create_xml
      name: log
      depends_on: [crew]
      target_file: "{{artifacts}}/log.xml"
      content:
        root_element: log
        schema: {type: object, properties: {open: {type: boolean}, day: date}}
      config: {clutter: true}
""",
}
EXPORTED = {0, 2, 4, 7, 8, 12}  # examples of the page that PICARD has a form for


@pytest.mark.parametrize("name", [*LIBRARY, *FORMS])
def test_an_exported_file_asks_the_same(tmp_path: Path, name: str) -> None:
    before = LIBRARY.get(name) or FORMS[name]
    same_samples(before, exported(tmp_path, before))


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_an_example_of_the_reference_is_exported_or_refused(tmp_path: Path, index: int) -> None:
    before = EXAMPLES[index]
    if index not in EXPORTED:
        assert refusals(tmp_path, before)
        return
    after = exported(tmp_path, before)
    assert not check_text(after, "mine.yml").errors
    if "count: [" not in before:  # a drawn count becomes a placeholder, which is drawn anew
        same_samples(before, after)


def test_what_picard_would_guess_is_written_out(tmp_path: Path) -> None:
    tests = {}
    for index, text in enumerate(FORMS.values()):
        folder = tmp_path / str(index)
        folder.mkdir()
        tests |= {
            test["question_id"]: test for test in yaml.safe_load(exported(folder, text))["tests"]
        }
    assert sorted(map(str, tests)) == [
        "7",
        "crew",
        *(f"old-rows-{rows}-column-{column}" for rows in (20, 40) for column in ("AGE-YRS", "PAY")),
        "shop",
    ]
    old = tests["old-rows-20-column-AGE-YRS"]
    question = "{{artifacts}}/{{qs_id}}/{{entity1}}.csv: "
    assert old["template"] == question + "{{number1:20:60}} of AGE_YRS, {{number1:20:60}}"
    assert "{{csv_count_where:ID:DEPT:==:HR:TARGET_FILE[file]}}" in old["expected_response"]
    (csv,) = old["sandbox_setup"]["components"]
    assert csv["content"]["rows"] == 20
    assert csv["content"]["header_types"] == ["id", "age", "lorem_words", "department"]
    assert csv["config"] == {"clutter": {"count": 2}}
    people, orders = tests["shop"]["sandbox_setup"]["components"][0]["content"]["tables"]
    assert (people["name"], orders["name"]) == ("people", "orders")
    assert orders["columns"][0] == {
        "name": "buyer",
        "type": "INTEGER",
        "foreign_key": {"table": "people", "column": "number"},
    }
    assert tests["crew"]["expected_response"] == "{{json_value:captain:TARGET_FILE[crew]}}"
    crew, log = tests["crew"]["sandbox_setup"]["components"]
    assert crew["content"]["schema"]["kind"] == {
        "type": "object",
        "properties": {"type": 5, "size": {"type": "integer", "minimum": 5000, "maximum": 6000}},
    }
    assert log["content"]["schema"] == {"open": "boolean", "day": "date"}


def test_a_count_between_two_becomes_a_free_placeholder(tmp_path: Path) -> None:
    (test,) = yaml.safe_load(exported(tmp_path, EXAMPLES[7]))["tests"]
    assert test["sandbox_setup"]["components"][0]["content"]["schema"]["crew"]["count"] == (
        "{{number1:30:60}}"
    )


def test_a_pool_of_ones_own_becomes_the_pool(tmp_path: Path) -> None:
    (tmp_path / "words.yml").write_text("format: 1\npools: {default: [quokka, numbat]}\n")
    exported(tmp_path, "values: words.yml\n" + FORMS["PICARD needs no rewriting"].lstrip())
    assert (tmp_path / "out/config/entity_pool.txt").read_text() == "quokka\nnumbat\n"


BASE = """\
tests:
- question_id: 1
  samples: 3
  template: "Read {{artifacts}}/{{entity1}}.csv and {{artifacts}}/t.json, {{number1:1:9}}"
  scoring_type: stringmatch
  expected_response: "{{csv_count:ID:TARGET_FILE[a]}}{{json_count:$.a:TARGET_FILE[b]}}"
  sandbox_setup:
    components:
    - type: create_csv
      name: a
      target_file: "{{artifacts}}/{{entity1}}.csv"
      content: {headers: [ID, AGE], rows: 20}
    - type: create_json
      name: b
      target_file: "{{artifacts}}/t.json"
      content: {schema: {a: {type: array, count: 3, items: city}}}
    - type: create_xml
      name: c
      target_file: "{{artifacts}}/t.xml"
      content: {schema: {a: city}}
    - type: create_sqlite
      name: d
      target_file: "{{artifacts}}/t.db"
      content: {table_name: t, columns: [{name: v, type: INTEGER}]}
"""
KEY = "{{csv_count:ID:TARGET_FILE[a]}}"
COUNT = "{{json_count:$.a:TARGET_FILE[b]}}"
SCHEMA = "{type: array, count: 3, items: city}"
XML = "{schema: {a: city}}"
TABLE = "columns: [{name: v, type: INTEGER}]"
EDIT = """\
scoring_type: json_targeted_edit
  original_file: "{{artifacts}}/t.json"
  modified_file: "{{artifacts}}/t.json"
  edit_verification: {target_changes: [{selector: "$.a[0]", expected_value: x}]}
  notes: """
REFUSED = {
    "a pool": (
        4,
        "{{entity1:person}}: PICARD has no pool person",
        "{{entity1}}.csv and",
        "{{entity1:person}}.csv and {{entity1}}",
    ),
    "a data type": (4, "no data type version", "{{number1:1:9}}", "{{semantic1:version}}"),
    "bounds": (4, "whole numbers from 0 on", "{{number1:1:9}}", "{{number1:-1:9}}"),
    "a number of a variable": (4, "begins with 0", "{{number1:1:9}}", "{{number01:1:9}}"),
    "a function in a question": (
        4,
        "csv_count: PICARD computes functions in answers only",
        "{{number1:1:9}}",
        KEY,
    ),
    "a function": (6, "math_abs: PICARD has no such function", KEY, "{{math_abs:5}}"),
    "nested functions": (
        6,
        "no function within another",
        KEY,
        f"{{{{file_line:{KEY}:TARGET_FILE[b]}}}}",
    ),
    "a colon": (
        6,
        "sqlite_query: : in an argument",
        KEY,
        "{{sqlite_query:SELECT '10:30':TARGET_FILE[d]}}",
    ),
    "a brace before": (6, "takes the brace before it", KEY, f"{{{KEY}"),
    "a step from the end": (6, "json_count: PICARD cannot follow $.a[-1]", "$.a:", "$.a[-1]:"),
    "a filter in a sum": (
        6,
        "json_sum: PICARD cannot follow",
        COUNT,
        "{{json_sum:$.a[?b>1].c:TARGET_FILE[b]}}",
    ),
    "two comparisons": (
        6,
        "json_count_where: PICARD cannot follow",
        COUNT,
        "{{json_count_where:$.a[?b>1 and c<2]:TARGET_FILE[b]}}",
    ),
    "an order in XPath": (6, "cannot follow a[b>1]", KEY, "{{xpath_count:a[b>1]:TARGET_FILE[c]}}"),
    "a namespace": (
        6,
        "no element of a file with a namespace",
        (KEY, XML),
        ("{{xpath_count:a:TARGET_FILE[c]}}", "{namespace: 'urn:x', schema: {a: city}}"),
    ),
    "a value that is not drawn": (
        6,
        "{{entity2}}: PICARD draws what stands in the question",
        KEY,
        "{{entity2}}",
    ),
    "the folder in a content": (
        16,
        "{{artifacts}}: PICARD fills it in no content",
        SCHEMA,
        f"{SCHEMA}, b: ['{{{{artifacts}}}}/x']",
    ),
    "an empty schema": (16, "an empty schema", "{schema: {a: " + SCHEMA + "}}", "{schema: {}}"),
    "a count between placeholders": (
        16,
        "no placeholder in a placeholder",
        "count: 3",
        "count: ['{{number2:1:2}}', 5]",
    ),
    "edits": (
        5,
        "PICARD writes no key for readfile_jsonedit",
        "scoring_type: stringmatch\n  expected_response: ",
        EDIT,
    ),
    "a path elsewhere": (15, "write {{artifacts}}/ first", '"{{artifacts}}/t.json"\n', "t.json\n"),
    "a tree": (
        17,
        "no component create_tree",
        ("type: create_xml", XML),
        ("type: create_tree", "{depth: 2}"),
    ),
    "a value drawn apart": (
        12,
        "{{number1:1:9}} stands outside of this content too",
        "rows: 20",
        "rows: '{{number1:1:9}}'",
    ),
    "a type of a column": (
        12,
        "no data type business",
        "[ID, AGE], rows",
        "[ID, AGE], header_types: [id, business], rows",
    ),
    "clutter": (
        9,
        "a number of clutter",
        "rows: 20}",
        "rows: 20}\n      clutter: '{{number1:1:9}}'",
    ),
    "an enum": (
        16,
        "instead of an enum's values",
        "items: city",
        "items: {type: string, enum: [a, b]}",
    ),
    "a pattern": (
        16,
        "a pattern for the name of a data type",
        "items: city",
        "items: {type: string, pattern: '[a-z]'}",
    ),
    "a literal text": (16, "no literal text", "items: city", "items: {type: literal, value: a}"),
    "a text of a placeholder": (
        16,
        "text that a placeholder makes",
        "items: city",
        "items: '{{number2:1:9}}'",
    ),
    "a bound of a placeholder": (
        16,
        "takes a number here",
        "items: city",
        "items: {type: integer, minimum: '{{number2:1:9}}'}",
    ),
    "a count between two in a list": (
        16,
        "one count for all lists",
        "items: city",
        "items: {type: array, count: [1, 2], items: city}",
    ),
    "a list in a list of XML": (
        20,
        "no list directly in a list",
        XML,
        f"{{schema: {{a: {{type: array, items: {SCHEMA}}}}}}}",
    ),
    "a list as the top of XML": (20, "a mapping of elements", XML, f"{{schema: {SCHEMA}}}"),
    "more keys in XML": (
        20,
        "additional_properties: PICARD's XML has none",
        XML,
        "{schema: {a: {type: object, additional_properties: true}}}",
    ),
    "true in XML": (20, "as Python does", XML, "{schema: {a: true}}"),
    "a word of SQL": (24, "does not quote names", "table_name: t", "table_name: order"),
    "a key into the own table": (
        24,
        "keys into their own table",
        f"table_name: t, {TABLE}",
        "tables: [{name: t, columns: [{name: id, type: auto_id}, "
        "{name: v, type: INTEGER, foreign_key: t.id}]}]",
    ),
    "values": (
        2,
        "values.types.city: PICARD has no values",
        "tests:",
        "values:\n  types: {city: [Brest, Varna]}\ntests:",
    ),
    "weights": (
        2,
        "PICARD has no weights",
        "tests:",
        "values:\n  pools: {default: {values: [a, b], weights: [0.5, 0.5]}}\ntests:",
    ),
    "together": (
        2,
        "PICARD has no values that go together",
        "tests:",
        "values:\n  together: [{types: [city, region], rows: [[a, b]]}]\ntests:",
    ),
}


def changed(old: str | tuple[str, ...], new: str | tuple[str, ...]) -> str:
    text = BASE
    pairs = [(old, new)] if isinstance(old, str) else zip(old, new, strict=True)
    for before, after in pairs:
        assert isinstance(before, str)
        assert isinstance(after, str)
        assert before in text
        text = text.replace(before, after, 1)
    return text


def test_the_file_without_a_fault_is_exported(tmp_path: Path) -> None:
    same_samples(BASE, exported(tmp_path, BASE))


@pytest.mark.parametrize("name", REFUSED)
def test_what_picard_lacks_is_one_error(tmp_path: Path, name: str) -> None:
    line, words, old, new = REFUSED[name]
    (error,) = refusals(tmp_path, changed(old, new))
    assert words in error
    assert error.startswith(f"{line}: ")


def test_all_are_listed(tmp_path: Path) -> None:
    text = changed(("rows: 20", "items: city"), ("rows: '{{number1:1:9}}'", "items: version"))
    assert [line.partition(":")[0] for line in refusals(tmp_path, text)] == ["12", "16"]


def test_the_command(tmp_path: Path) -> None:
    path, out = tmp_path / "mine.yml", tmp_path / "out"
    path.write_text(BASE + FORMS["PICARD needs no rewriting"].partition("\n")[2].partition("\n")[2])
    done = run("template", "export", str(path), "--out", str(out), "--questions", "7", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"written": str(out / "config/mine.yml"), "questions": ["7"]}
    again = run("template", "export", str(path), "--out", str(out))
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    path.write_text(changed("items: city", "items: version"))
    refused = run("template", "export", str(path), "--out", str(tmp_path / "other"))
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"dosimeter: {path}:16: tests[0].sandbox_setup.components[1].")
    assert not (tmp_path / "other").exists()

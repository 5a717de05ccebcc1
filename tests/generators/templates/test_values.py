"""Values that an author gives, and the strata of ``for_each``: what they draw, and every error."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.family import template_family
from generators.templates.language.values import named_values_file
from generators.templates.prepare import Prepared, prepare
from generators.yaml_lines import dump_yaml
from tests.cases import cases
from tests.study.cli.program import run

ROWS = 4000
PAIRS = {("Oakville", "Upper"), ("Elmton", "Lower"), ("Ashford", "Lower")}
VALUES: dict[str, Any] = {
    "types": {
        "department": ["Dyeing", "Looms, old", 'The "Loft"'],
        "status": {"values": ["open", "shut", "never"], "weights": [0.9, 0.1, 0], "empty": 0.2},
        "price": {"range": [0.5, 2], "empty": 0.5},
        "age": {"range": [3, 5]},
        "rating": [1, 2, 3],
        "zip": ["01234", "1e2", "A1"],
        "boolean": ["yes", "no"],
        "id": {"range": [100, 100 + ROWS]},
        "first_name": ["Ada", "Bob"],
        "mail_domain": ["mail.test"],
    },
    "pools": {"fruit": {"values": ["apple", "pear"], "weights": [0.25, 0.75]}},
    "together": [{"types": ["city", "region"], "rows": [list(pair) for pair in sorted(PAIRS)]}],
}
HEADERS = ["id", "city", "department", "status", "price", "boolean", "region", "age", "city_name"]


def question(**keys: Any) -> dict[str, Any]:
    return {
        "question_id": "q",
        "samples": 2,
        "template": "Say {{entity1}}",
        "scoring_type": "stringmatch",
        "expected_response": "{{entity1}}",
        **keys,
    }


def template(values: Any = None, **keys: Any) -> str:
    given = {} if values is None else {"values": values}
    return dump_yaml({**given, "tests": [question(**keys)]})


def made(content: dict[str, Any], kind: str, **keys: Any) -> bytes:
    """The bytes of a file with the values."""
    setup = {"type": kind, "target_file": "artifacts/x", "content": content}
    return sample(template(VALUES, sandbox_setup=setup, **keys)).files[0].data


def sample(text: str, seed: int = 3, values: str = "") -> Prepared:
    family = template_family("mine.yml", text, values)
    return prepare(family.compiled(family.questions[0]), Seed(bytes([seed]) * 32))


def table(headers: list[str] = HEADERS, rows: int = ROWS) -> list[dict[str, str]]:
    content = {"headers": headers, "header_types": headers, "rows": rows}
    return list(csv.DictReader(io.StringIO(made(content, "create_csv").decode())))


def near(count: int, share: float, of: int) -> bool:
    return abs(count - share * of) < 5 * math.sqrt(share * (1 - share) * of)


# -- what is drawn ----------------------------------------------------------------------------


def test_lists_weights_and_empty_cells_are_those_given() -> None:
    rows = table()
    departments = Counter(row["department"] for row in rows)
    assert set(departments) == set(VALUES["types"]["department"])
    assert all(near(count, 1 / 3, ROWS) for count in departments.values())
    statuses = Counter(row["status"] for row in rows)
    assert set(statuses) == {"open", "shut", ""}
    assert near(statuses[""], 0.2, ROWS)
    assert near(statuses["open"], 0.8 * 0.9, ROWS)
    assert {row["boolean"] for row in rows} == {"yes", "no"}


def test_ranges_are_filled_to_both_ends() -> None:
    rows = table()
    prices = {row["price"] for row in rows} - {""}
    assert prices == {f"{number / 100:.2f}" for number in range(50, 201)}
    assert {row["age"] for row in rows} == {"3", "4", "5"}
    numbers = [int(row["id"]) for row in rows]
    assert len(set(numbers)) == ROWS  # ids identify in a range of one's own, too
    assert min(numbers) >= 100 and max(numbers) <= 100 + ROWS  # noqa: PT018


def test_columns_that_go_together_do_so_in_every_kind_of_file() -> None:
    assert {(row["city"], row["region"]) for row in table()} == PAIRS
    assert all(row["city"] == row["city_name"] for row in table())
    items = {"c": "city", "r": "region", "other": "city"}
    schema = {"schema": {"type": "array", "count": 300, "items": items}}
    for kind, read in (("create_json", json.loads), ("create_yaml", yaml.safe_load)):
        objects = read(made(schema, kind))
        assert {(each["c"], each["r"]) for each in objects} == PAIRS
        assert {each["c"] == each["other"] for each in objects} == {True, False}
    tree = ET.fromstring(made(schema, "create_xml"))
    assert {(each.findtext("c"), each.findtext("r")) for each in tree} == PAIRS


def test_weights_of_rows_hold_for_columns_that_go_together() -> None:
    values = {"together": [{**VALUES["together"][0], "weights": [0.5, 0.5, 0]}]}
    content = {"headers": ["city", "region"], "rows": 1000}
    setup = {"type": "create_csv", "target_file": "artifacts/x", "content": content}
    data = sample(template(values, sandbox_setup=setup)).files[0].data.decode()
    drawn = Counter(tuple(line.split(",")) for line in data.splitlines()[1:])
    assert set(drawn) == set(sorted(PAIRS)[:2])
    assert near(drawn[sorted(PAIRS)[0]], 0.5, 1000)


def test_a_database_stores_the_values_as_sqlite_would() -> None:
    columns = cases(__file__, "stored_columns")
    data = made({"table_name": "t", "columns": columns, "rows": 500}, "create_sqlite")
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def distinct(column: str) -> set[Any]:
        return {value for (value,) in connection.execute(f"SELECT DISTINCT {column} FROM t")}

    assert set(connection.execute("SELECT DISTINCT c, r FROM t")) == PAIRS
    written = sqlite3.connect(":memory:")
    written.execute("CREATE TABLE t (z INTEGER)")
    written.executemany("INSERT INTO t VALUES (?)", [(text,) for text in VALUES["types"]["zip"]])
    by_sqlite = {value for (value,) in written.execute("SELECT z FROM t")}
    assert distinct("z") == by_sqlite == {1234, 100, "A1"}
    assert distinct("s") == {"open", "shut", None}
    assert distinct("typeof(p)") == {"real", "null"}
    assert distinct("typeof(t)") == {"text", "null"}
    assert distinct("k") == {1.0, 2.0, 3.0}
    assert distinct("b") == {0, 1}
    connection.close()
    written.close()


def test_an_empty_cell_is_null_in_json_and_no_value_of_a_placeholder() -> None:
    schema = {"schema": {"type": "array", "count": 300, "items": {"s": "status", "p": "price"}}}
    objects = json.loads(made(schema, "create_json"))
    assert {each["s"] for each in objects} == {"open", "shut", None}
    text = template(VALUES, template="Say {{entity1}} {{semantic1:status}}")
    words = Counter(sample(text, seed).prompt.split()[-1] for seed in range(200))
    assert set(words) == {"open", "shut"}


def test_a_column_of_nothing_but_empty_cells_still_has_its_rows() -> None:
    values = {"types": {"note": {"values": ["x"], "empty": 0.999}}}
    content = {"headers": ["note"], "header_types": ["note"], "rows": 50}
    setup = {"type": "create_csv", "target_file": "artifacts/x", "content": content}
    text = template(values, sandbox_setup=setup, expected_response="{{csv_row:50:TARGET_FILE}}")
    data = sample(text).files[0].data.decode()
    assert len([row for row in csv.reader(io.StringIO(data)) if row]) == 51


def test_placeholders_of_one_number_are_of_one_row() -> None:
    text = template(VALUES, template="{{entity1}} {{semantic1:city}} {{semantic1:region}}")
    assert {tuple(sample(text, seed).prompt.split()[1:]) for seed in range(100)} == PAIRS


def test_pools_have_their_words_and_names_follow_their_parts() -> None:
    text = template(
        VALUES,
        template="{{entity1:fruit}} {{semantic1:email}} {{semantic1:person_name}}",
        expected_response="{{entity1:fruit}}",
    )
    prompts = [sample(text, seed).prompt.split() for seed in range(250)]
    words = Counter(prompt[0] for prompt in prompts)
    assert set(words) == {"apple", "pear"}
    assert near(words["pear"], 0.75, 250)
    assert {prompt[1].split(".")[0] for prompt in prompts} == {"ada", "bob"}
    assert {prompt[1].split("@")[1] for prompt in prompts} == {"mail.test"}
    assert {prompt[2] for prompt in prompts} == {"Ada", "Bob"}


def test_texts_that_other_readers_take_for_numbers_or_dates_stay_as_written() -> None:
    slots = {"12:30", "1:2:3.5", "1_000", "0b1", "NO", "on", "2024-01-01", "=", "<<"}
    listed = f"types: {{slot: [{', '.join(sorted(slots))}]}}\n"
    text = HEAD.replace("{{entity1}}", "{{semantic1:slot}}")
    given = f"{text}values: {{{listed.strip()}}}\n"
    assert {sample(given, seed).key.expected for seed in range(150)} == slots


# -- versions ---------------------------------------------------------------------------------


def test_values_are_part_of_the_version_in_the_template_and_in_a_file() -> None:
    plain = template_family("mine.yml", template())
    inline = template_family("mine.yml", template(VALUES))
    text = template("v.yml")
    written = dump_yaml({"format": 1, **VALUES})
    named = template_family("mine.yml", text, written)
    other = template_family("mine.yml", text, written.replace("Dyeing", "Felting"))
    assert len({plain.version, inline.version, named.version, other.version}) == 4
    assert named.version == template_family("mine.yml", text, written).version
    content = {"headers": HEADERS, "rows": 20}
    setup = {"type": "create_csv", "target_file": "artifacts/x", "content": content}
    apart = sample(template("v.yml", sandbox_setup=setup), values=written)
    assert apart.files == sample(template(VALUES, sandbox_setup=setup)).files


@pytest.mark.parametrize(("text", "name"), cases(__file__, "names"))
def test_the_name_of_a_values_file_is_found(text: str, name: str | None) -> None:
    assert named_values_file(text) == name


# -- strata -----------------------------------------------------------------------------------


def strata(for_each: Any, **keys: Any) -> dict[str, Prepared]:
    family = template_family("mine.yml", template(None, for_each=for_each, **keys))
    return {id: prepare(family.compiled(id), Seed(bytes(32))) for id in family.questions}


SETUP: dict[str, Any] = cases(__file__, "setup")


def test_each_number_of_rows_is_a_stratum() -> None:
    made_of = strata({"rows": [50, 500, 5000]}, sandbox_setup={**SETUP, "rows": 7})
    counts = {id: each.files[0].data.count(b"\r\n") - 1 for id, each in made_of.items()}
    assert counts == {"q-rows-50": 50, "q-rows-500": 500, "q-rows-5000": 5000}


def test_a_placeholder_stands_for_the_value_everywhere() -> None:
    setup = {**SETUP, "content": {**SETUP["content"], "rows": "{{rows}}"}}
    made_of = strata(
        {"rows": [3, 4], "column": ["id", "age"]},
        template="Row {{rows}}: {{column}}",
        expected_response="{{csv_cell:{{rows}}:{{column}}:TARGET_FILE}}".replace(
            "csv_cell:{{rows}}", "csv_value:0"
        ),
        sandbox_setup=setup,
    )
    assert list(made_of) == [
        *("q-rows-3-column-id", "q-rows-3-column-age"),
        *("q-rows-4-column-id", "q-rows-4-column-age"),
    ]
    for id, each in made_of.items():
        _, _, rows, _, column = id.split("-")
        assert each.prompt == f"Row {rows}: {column}"
        lines = each.files[0].data.decode().splitlines()
        assert len(lines) == int(rows) + 1
        assert each.key.expected == lines[1].split(",")[["id", "age"].index(column)]


def test_a_value_is_text_where_text_is_wanted() -> None:
    made_of = strata({"rows": [3, 4]}, template="{{rows}}", expected_response="{{rows}}")
    assert [each.key.expected for each in made_of.values()] == ["3", "4"]


def test_a_question_names_all_of_its_strata() -> None:
    text = yaml.safe_dump(
        {
            "tests": [
                question(for_each={"word": ["a", "b"]}, template="{{word}} {{entity1}}"),
                question(question_id="q-word"),
                question(question_id="r"),
            ]
        }
    )
    file = template_family("mine.yml", text).file
    assert file.strata_of("q") == ("q-word-a", "q-word-b")
    assert [file.strata_of(id) for id in ("q-word", "r", "q-word-a", "x")] == [
        *(("q-word",), ("r",), ("q-word-a",), ("x",))
    ]


# -- errors -----------------------------------------------------------------------------------

HEAD = cases(__file__, "head")


# What follows HEAD, or stands for it, the line of the fault, and words of the error.
BAD: dict[str, tuple[dict[str, str], int, str]] = cases(__file__, "bad")
PLACES = {"test": HEAD, "values": f"{HEAD}values:\n", "types": f"{HEAD}values:\n  types:\n    "}


@pytest.mark.parametrize("fault", BAD)
def test_a_fault_is_one_error_with_its_line(tmp_path: Path, fault: str) -> None:
    texts, line, words = BAD[fault]
    ((place, text),) = texts.items()
    path = tmp_path / "mine.yml"
    path.write_text(f"{PLACES.get(place, '')}{text}\n", encoding="utf-8")
    refused(path, f"{path}:{line}: ", words)


FILE = "format: 1\ntypes:\n  status: [open, shut]\n"
BAD_FILES = {
    "another version": (FILE.replace("1", "2").encode(), 1, "the format is 2"),
    "no version": (b"types: {}\n", 1, "the format is missing"),
    "empty": (b"", 1, "is empty"),
    "no mapping": (b"- 1\n", 1, "a mapping is wanted"),
    "a file of its own": (FILE.encode() + b"values: other.yml\n", 4, "unknown key"),
    "empty list": (FILE.replace("open, shut", "").encode(), 3, "at least one value"),
    "aliases": (FILE.encode() + b"pools: &a {default: *a}\n", 4, "aliases"),
    "UTF-8": (b"format: 1\ntypes:\n  status: [a\xff]\n", 3, "not UTF-8"),
    "given twice": (FILE.encode() + b"  status: [a]\n", 4, "already"),
    "syntax": (b"format: 1\ntypes: [\n", 3, "not valid YAML"),
    "50 MB": (FILE.encode() + b"#" * 50_000_000, 1, "a values file has at most 4000000"),
    "many values": (
        b"format: 1\npools:\n  default: [" + b"a, " * 100_000 + b"]\n",
        3,
        "at most 100000 values",
    ),
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_fault_of_a_values_file_names_that_file_and_its_line(tmp_path: Path, fault: str) -> None:
    data, line, words = BAD_FILES[fault]
    path, values = tmp_path / "mine.yml", tmp_path / "v.yml"
    path.write_text("values: v.yml\n" + HEAD, encoding="utf-8")
    values.write_bytes(data)
    refused(path, f"{values}:{line}: ", words)


def refused(path: Path, where: str, words: str) -> None:
    """Both commands refuse the file with one error, and leave nothing behind."""
    done = run("template", "check", str(path))
    assert done.exit_code == 2
    errors = [x for x in done.output.splitlines() if x.startswith("error ")]
    assert len(errors) == 1, done.output
    assert where in errors[0]
    assert words in errors[0]
    out = path.parent / "out"
    done = run("template", "prepare", str(path), "--seed", "00" * 32, "--out", str(out))
    assert done.exit_code == 2
    lines = [x for x in done.stderr.splitlines() if not x.startswith("note: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].removeprefix("dosimeter: ") == errors[0].removeprefix("error ")
    assert not list(path.parent.glob("*out*"))


def test_a_name_near_a_known_one_is_a_warning_in_a_file_that_others_may_use(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("values: v.yml\n" + HEAD, encoding="utf-8")
    (tmp_path / "v.yml").write_text("format: 1\ntypes: {citys: [Oakville]}\n", encoding="utf-8")
    done = run("template", "check", str(tmp_path / "mine.yml"))
    assert done.exit_code == 0, done.output
    assert "v.yml:2: types.citys: unknown data type 'citys'" in done.output


def test_a_new_type_may_have_a_name_near_a_known_one_if_it_is_used() -> None:
    values = {"types": {"cities": ["Oakville"]}}
    text = template(values, template="Say {{entity1}} {{semantic1:cities}}")
    assert sample(text).prompt.endswith("Oakville")
    with pytest.raises(TemplateError, match="did you mean 'city'"):
        template_family("mine.yml", template({"types": {"citys": ["Oakville"]}}))


def example_of_the_documentation() -> str:
    page = (Path(__file__).parents[3] / "docs/templates.md").read_text(encoding="utf-8")
    return page.split("## Values")[1].split("```yaml\n")[1].split("```")[0]


@pytest.mark.parametrize("most", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_the_example_of_the_documentation_is_sound(tmp_path: Path, most: int) -> None:
    example = example_of_the_documentation()
    assert ", 5000]" in example
    small = example if most == 5000 else example.replace(", 5000]", "]")
    (tmp_path / "example.yml").write_text(small, encoding="utf-8")
    done = run("template", "check", str(tmp_path / "example.yml"))
    assert done.exit_code == 0, done.output


def test_the_example_of_the_documentation_asks_at_three_sizes() -> None:
    family = template_family("example.yml", example_of_the_documentation())
    assert family.questions == tuple(f"offices-rows-{rows}" for rows in (50, 500, 5000))
    for id in family.questions:
        drawn = prepare(family.compiled(id), Seed(bytes(32)))
        rows = list(csv.DictReader(io.StringIO(drawn.files[0].data.decode())))
        region = drawn.prompt.rstrip("?").split()[-1]
        assert drawn.key.expected == str(sum(row["REGION"] == region for row in rows))

"""What every component promises: the same bytes of the same seed, and sizes in bounds."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.language.data_types import LATIN
from tests.cases import cases
from tests.generators.templates import component_samples as samples

SEED = samples.SEED
made, maker = samples.made, samples.maker


def refusal(type_: str, content: Any, config: Any = None) -> str:
    with pytest.raises(TemplateError) as caught:
        maker(type_, content, config)
    return str(caught.value)


# -- the same bytes ---------------------------------------------------------------------------


def test_the_bytes_are_those_on_record():
    assert samples.digests() == json.loads(samples.GOLDEN.read_text())


def test_another_process_with_another_hash_seed_makes_the_same():
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run(
        [sys.executable, samples.__file__], capture_output=True, env=environment, check=True
    )
    assert json.loads(done.stdout) == samples.digests()


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_a_maker_makes_again_and_otherwise_of_another_seed(name: str):
    each = maker(*samples.SAMPLES[name])
    first = each.make(SEED.rng(), "artifacts/a/b.x")
    each.make(SEED.child("another").rng(), "artifacts/elsewhere")
    assert each.make(SEED.rng(), "artifacts/a/b.x") == first
    assert each.make(SEED.child("another").rng(), "artifacts/a/b.x") != first


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_the_space_is_a_number_that_grows(name: str):
    space = maker(*samples.SAMPLES[name]).log10_space
    assert math.isfinite(space)
    assert space > 3


def test_an_unknown_component_is_refused_with_the_nearest():
    assert refusal("create_cvs", {}).startswith(
        "type: unknown component 'create_cvs'; did you mean 'create_csv'?"
    )


# -- text files -------------------------------------------------------------------------------

SENTENCE = re.compile(r"[A-Z][a-z]+( [a-z]+){7,14}\.")


def text_of(content: Any) -> str:
    (file,) = made("create_files", content)
    return file.data.decode()


def test_lines_are_sentences_and_as_many_as_asked():
    lines = text_of({"type": "lorem_lines", "count": 300}).removesuffix("\n").split("\n")
    assert len(lines) == 300
    assert all(SENTENCE.fullmatch(line) for line in lines)
    assert {len(line.split()) for line in lines} == set(range(8, 16))
    assert {word.strip(".").lower() for line in lines for word in line.split()} == set(LATIN)


def test_sentences_paragraphs_and_words_are_as_many_as_asked():
    sentences = text_of({"type": "lorem_sentences", "count": 9})
    assert len(re.findall(r"\.(?= |\n$)", sentences)) == 9
    paragraphs = text_of({"type": "lorem_paragraphs", "count": 40}).split("\n\n")
    assert len(paragraphs) == 40
    assert {paragraph.count(".") for paragraph in paragraphs} == {4, 5, 6, 7, 8}
    assert all(re.fullmatch(rf"{SENTENCE.pattern}( {SENTENCE.pattern})*\n?", each)
               for each in paragraphs)  # fmt: skip
    assert len(text_of({"type": "lorem_words", "count": 50}).split()) == 50


def test_ten_lines_are_usual_and_none_are_possible():
    assert text_of({}).count("\n") == 10
    assert text_of({"type": "lorem_lines", "count": 0}) == ""
    assert text_of({"type": "lorem_paragraphs", "count": 0}) == ""


def test_a_count_from_a_placeholder_comes_as_text():
    assert text_of({"type": "lorem_lines", "count": "7"}).count("\n") == 7


def test_custom_content_keeps_its_own_words():
    written = text_of({"type": "custom", "content": "A {b} {{c}}\n{{lorem:2l}}\nZ: {{lorem:1s}}"})
    assert re.fullmatch(
        rf"A \{{b\}} \{{\{{c\}}\}}\n{SENTENCE.pattern}\n{SENTENCE.pattern}\nZ: {SENTENCE.pattern}",
        written,
    )
    assert text_of({"type": "custom", "content": ""}) == ""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        *cases(__file__, "bad_text_files"),
        ({"type": "custom", "content": "\udfff"}, "content.content: half a character"),
    ],
)
def test_bad_text_files_are_refused(content: Any, complaint: str):
    assert refusal("create_files", content).startswith(complaint)


# -- CSV --------------------------------------------------------------------------------------


def rows_of(content: Any) -> list[list[str]]:
    (file,) = made("create_csv", content)
    return list(csv.reader(io.StringIO(file.data.decode(), newline="")))


def test_a_table_has_its_headers_and_rows():
    rows = rows_of(samples.EVERY_TYPE)
    assert rows[0] == samples.EVERY_TYPE["headers"]
    assert len(rows) == 41
    assert all(all(row) and len(row) == len(rows[0]) for row in rows)
    ages = [int(row[rows[0].index("age")]) for row in rows[1:]]
    assert all(18 <= age <= 70 for age in ages)
    truths = {row[rows[0].index("boolean")] for row in rows[1:]}
    assert truths == {"true", "false", "yes", "no", "1", "0"}
    assert all(re.fullmatch(r"\d+\.\d\d", row[rows[0].index("price")]) for row in rows[1:])


def test_types_are_inferred_and_rows_may_be_none():
    rows = rows_of({"headers": ["order_id", "dept"], "rows": "3"})
    assert all(row[0].isdecimal() for row in rows[1:])
    assert rows_of({"headers": ["a", "b"], "rows": 0}) == [["a", "b"]]
    assert rows_of({})[0] == ["name", "email", "age"]
    assert len(rows_of({})) == 11


def test_hostile_headers_are_quoted():
    headers = ["a,b", 'say "x"', "two\nlines", " ", "=cmd()"]
    assert rows_of({"headers": headers, "rows": 2})[0] == headers


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        *cases(__file__, "bad_tables"),
        ({"headers": ["a" * 7000], "rows": 10**6 + 1}, "content.rows: up to"),
        ({"headers": ["\ud800"]}, "content.headers[0]: half a character"),
    ],
)
def test_bad_tables_are_refused(content: Any, complaint: str):
    assert refusal("create_csv", content).startswith(complaint)


def test_all_complaints_come_at_once():
    complaints = refusal(
        "create_csv", {"headers": ["a", "b"], "header_types": ["x", "y"]}, {"cluter": 1}
    )
    assert [line.partition(":")[0] for line in complaints.splitlines()] == [
        *("content.header_types[0]", "content.header_types[1]", "config.cluter")
    ]


# -- trees ------------------------------------------------------------------------------------


def test_a_tree_has_its_levels_folders_and_files():
    files = made("create_tree", {"depth": 3, "breadth": 2, "files": [1, 3]}, target="artifacts/t/")
    folders: dict[str, int] = {}
    for file in files:
        folder = file.path.rpartition("/")[0]
        folders[folder] = folders.get(folder, 0) + 1
        assert file.path.startswith("artifacts/t/")
        assert re.fullmatch(rf"({SENTENCE.pattern}\n){{1,4}}", file.data.decode())
    levels = [folder.count("/") - 1 for folder in folders]
    assert [levels.count(level) for level in range(4)] == [1, 2, 4, 8]
    assert set(folders.values()) == {1, 2, 3}
    assert len({file.path for file in files}) == len(files)


@pytest.mark.parametrize(("content", "complaint"), cases(__file__, "bad_trees"))
def test_bad_trees_are_refused(content: Any, complaint: str):
    assert refusal("create_tree", content).startswith(complaint)


# -- clutter ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "count"), cases(__file__, "clutter"))
def test_the_forms_of_clutter(config: Any, count: int):
    assert len(made("create_csv", {}, config)) == 1 + count


def test_clutter_changes_nothing_of_the_component():
    alone, cluttered = made("create_csv", {}), made("create_csv", {}, {"clutter": 9})
    assert cluttered[0] == alone[0]


def test_clutter_is_of_four_kinds_beside_the_target_and_below():
    files = made("create_csv", {}, {"clutter": 200})[1:]
    names = [file.path.removeprefix("artifacts/a/") for file in files]
    kinds = (r"\.[a-z]+\d{4}", *(rf"[a-z]+\d{{4}}\.{kind}" for kind in ("tmp", "log", "cache")))
    for kind in kinds:
        assert sum(bool(re.fullmatch(f"([a-z]+/)?{kind}", name)) for name in names) > 20
    assert len(set(names)) == 200
    assert 60 < sum("/" in name for name in names) < 140
    assert all(file.data.endswith(b".\n") for file in files)
    logs = [file.data.decode() for file in files if file.path.endswith(".log")]
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]", log) for log in logs)


def test_a_pattern_says_endings_and_folders():
    flat = made("create_csv", {}, {"clutter": {"count": 20, "pattern": "*.bak"}})[1:]
    assert all(re.fullmatch(r"artifacts/a/[a-z]+\d{4}\.bak", file.path) for file in flat)
    deep = made("create_csv", {}, {"clutter": {"count": 20, "pattern": "**/*.bak"}})[1:]
    assert any(file.path.count("/") == 3 for file in deep)


def test_clutter_beside_a_file_at_the_root():
    files = made("create_csv", {}, {"clutter": 4}, target="b.csv")
    assert not any(file.path.startswith("/") for file in files)


def test_a_tree_has_its_clutter_beside_it():
    files = made("create_tree", {"depth": 0, "files": 1}, {"clutter": 30}, target="artifacts/t/")
    assert not any(file.path.startswith("artifacts/t/") for file in files[1:])


@pytest.mark.parametrize(("config", "complaint"), cases(__file__, "bad_clutter"))
def test_bad_clutter_is_refused(config: Any, complaint: str):
    assert refusal("create_csv", {}, config).startswith(complaint)


def test_the_largest_that_is_allowed_can_be_made():
    columns = {"headers": ["age", "score"], "rows": 500_000}
    (file,) = made("create_csv", columns, seed=Seed(bytes(32)))
    assert file.data.count(b"\r\n") == 500_001
    assert len(file.data) < 64 << 20

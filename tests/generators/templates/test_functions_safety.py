"""What is not for keys is refused, soon and with a reason, whatever the file or the template."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing, suppress
from typing import Any

import pytest

from generators.child_process import ChildLimits, run_in_child
from generators.errors import TemplateError
from generators.templates.functions import call_function
from generators.templates.functions.base import MAX_BYTES, OpenFile
from generators.templates.functions.json_yaml import MAX_YAML
from generators.templates.functions.xml_file import XML
from tests.cases import cases

SLOW_STEP = (  # each instr() is one step, of 10^10 comparisons
    "SELECT max(instr(long || t.b, substr(long, 1, 100000) || 'c')) "
    "FROM t, (SELECT replace(hex(zeroblob(100000)), '0', 'a') AS long)"
)
SECONDS = 20.0  # of CPU; what is refused here took minutes or all memory if it were computed


def refused(name: str, argument: str, data: bytes | str) -> str:
    content = data.encode() if isinstance(data, str) else data
    started = time.process_time()
    with closing(OpenFile("file", content)) as file, pytest.raises(TemplateError) as caught:
        call_function(name, [argument], file)
    assert time.process_time() - started < SECONDS
    assert len(str(caught.value)) < 700
    return str(caught.value)


@pytest.fixture(scope="module")
def numbers() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a INTEGER, b TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"b{n}") for n in range(100)])
    connection.execute("CREATE INDEX i ON t (b)")
    connection.execute("CREATE TABLE broken (a TEXT)")
    connection.execute("INSERT INTO broken VALUES (CAST(x'ff41' AS TEXT))")
    connection.execute("CREATE TABLE big (a TEXT)")
    connection.execute("INSERT INTO big VALUES (?)", ("x" * 300_000,))
    connection.commit()
    data = connection.serialize()
    connection.close()
    return data


@pytest.mark.parametrize("sql", cases(__file__, "queries that do not only read"))
def test_queries_that_do_not_only_read(
    sql: str, numbers: bytes, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with closing(OpenFile("file", numbers)) as file:
        with pytest.raises(TemplateError, match=r"only read|may not be modified"):
            call_function("sqlite_query", [sql], file)
        assert call_function("sqlite_query", ["SELECT COUNT(*) FROM t"], file) == "100"
    import os

    assert os.listdir() == []


@pytest.mark.parametrize(("sql", "said"), cases(__file__, "queries without an answer"))
def test_queries_without_an_answer(sql: str, said: str, numbers: bytes) -> None:
    assert said in refused("sqlite_query", sql, numbers)


def test_dates_of_the_data_are_no_clock(numbers: bytes) -> None:
    """SQLite's own functions of dates on the same texts are the oracle."""
    asked = cases(__file__, "dates")
    own = sqlite3.connect(":memory:")
    with closing(OpenFile("file", numbers)) as file:
        for each in asked:
            (expected,) = own.execute(f"SELECT {each}").fetchone()
            said = call_function("sqlite_query", [f"SELECT {each}"], file)
            assert said == ("" if expected is None else str(expected))
    own.close()


@pytest.mark.parametrize(
    ("asked", "name"), cases(__file__, "chance the clock and the machine are asked in no way")
)
def test_chance_the_clock_and_the_machine_are_asked_in_no_way(
    asked: str, name: str, numbers: bytes
) -> None:
    told = refused("sqlite_query", f"SELECT {asked} FROM t", numbers)
    assert f": {name}() " in told, told
    assert "a key must not" in told or "not for queries" in told


@pytest.mark.parametrize("sql", cases(__file__, "of_sqlite"))
def test_what_tells_of_sqlite_itself_is_no_key(sql: str, numbers: bytes) -> None:
    assert re.search(
        "depends on the version of SQLite|is refused", refused("sqlite_query", sql, numbers)
    )


def test_each_function_that_sqlite_does_not_call_deterministic_is_refused(numbers: bytes) -> None:
    """All that this SQLite has but aggregates, and those that work on search tables only."""
    own = sqlite3.connect(":memory:")
    listed = own.execute(
        "SELECT DISTINCT name, max(narg, 0) FROM pragma_function_list "
        "WHERE type = 's' AND builtin AND NOT flags & 0x800"
    ).fetchall()
    own.close()
    search = {"match", "matchinfo", "offsets", "optimize", "snippet", "rtreecheck", "rtreedepth"}
    search |= {"rtreenode", "fts5", "bm25", "highlight"}
    assert ("random", 0) in listed
    for name, count in listed:
        if name not in search and not name.startswith("fts"):
            call = f"SELECT {name}{'' if '_' in name and 'current' in name else _nulls(count)}"
            assert f"{name}() " in refused("sqlite_query", call, numbers), name


def _nulls(count: int) -> str:
    return f"({', '.join(['NULL'] * count)})"


@pytest.mark.parametrize(
    ("name", "argument", "data", "said"),
    [
        ("sqlite_query", SLOW_STEP, None, "takes more than 1 s"),
        (
            "xpath_count",
            "//a[//b != //b]",
            b"<r>" + b"<a><b/></a>" * 4_000 + b"</r>",
            "takes more than",
        ),
        ("json_count", "$[*]", b"[" + b"[[]]," * 3_000_000 + b"1]", "takes more than"),
    ],
)
def test_what_no_bound_of_ours_stops_is_stopped_with_its_process(
    name: str, argument: str, data: bytes | None, said: str, numbers: bytes, monkeypatch: Any
) -> None:
    limits = ChildLimits(seconds=1, memory=200_000_000)
    monkeypatch.setattr("generators.templates.functions._LIMITS", limits)
    assert said in refused(name, argument, numbers if data is None else data)
    assert call_function("json_count", ["$[*]"], OpenFile("file", b"[7, 8]")) == "2"


@pytest.mark.parametrize("blanks", ["/**/", "/* */ ", "-- x\n", ";\n"])
def test_what_stands_before_a_query_is_read_once(blanks: str, numbers: bytes) -> None:
    assert "EXPLAIN depends" in refused("sqlite_query", blanks * 5_000 + "EXPLAIN x", numbers)
    assert "no such table" in refused("sqlite_query", blanks * 5_000 + "SELECT a FROM x", numbers)


@pytest.mark.parametrize(
    "data", [b"", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 4096, b"<a/>" * 100]
)
def test_what_is_no_database(data: bytes) -> None:
    assert "database" in refused("sqlite_query", "SELECT COUNT(*) FROM t", data)


def test_a_database_that_is_cut_short(numbers: bytes) -> None:
    for size in (100, 1000, len(numbers) // 2):
        refused("sqlite_query", "SELECT SUM(length(b)) FROM t JOIN big", numbers[:size])


@pytest.mark.parametrize("name", ["json_value", "yaml_value"])
@pytest.mark.parametrize("depth", [250, 10_000, 200_000])
def test_trees_that_are_too_deep(name: str, depth: int) -> None:
    assert "deep" in refused(name, "a", "[" * depth + "]" * depth)
    assert "deep" in refused(name, "a", '{"a":' * depth + "1" + "}" * depth)


def test_yaml_that_is_deep_by_its_columns() -> None:
    assert "deep" in refused("yaml_value", "a", "- " * 5_000 + "x")
    assert "deep" in refused("yaml_value", "a", "? " * 5_000 + "x")
    assert "deep" in refused("yaml_value", "a", "\n".join(" " * n + "a:" for n in range(1_500)))


def test_trees_as_deep_as_may_be_are_read() -> None:
    path = "$" + "[0]" * 199
    for name in ("json_value", "yaml_value"):
        with closing(OpenFile("file", ("[" * 199 + "7" + "]" * 199).encode())) as file:
            assert call_function(name, [path], file) == "7"


@pytest.mark.parametrize("text", [*cases(__file__, "no_json"), '{"a": 1' + "0" * 5000 + "}"])
def test_what_is_no_json(text: str) -> None:
    assert "JSON" in refused("json_value", "a", text)


@pytest.mark.parametrize("text", cases(__file__, "what is no yaml"))
def test_what_is_no_yaml(text: str) -> None:
    assert "YAML" in refused("yaml_value", "a", text)


def test_yaml_of_a_billion_laughs() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "values" in refused("yaml_path", "$", "a0: &a0 [lol, lol]\n" + "\n".join(levels))
    merged = "\n".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)
    )
    assert "values" in refused("yaml_path", "$", "a0: &a0 {x: 1, y: 2}\n" + merged)
    assert "file" in refused("yaml_path", "$", "a: &a [*a]")


@pytest.mark.parametrize("number", ["1" + ":1" * 500_000, "0x" + "f" * 1_000_000, "1" * 5000])
def test_a_yaml_number_that_would_take_for_ever_is_a_text(number: str) -> None:
    with closing(OpenFile("file", f"a: {number}".encode())) as file:
        assert call_function("yaml_count", ["$"], file) == "1"


def test_files_beyond_their_size() -> None:
    big = b"x" * (MAX_BYTES + 1)
    for name, argument in [("file_line", "1"), ("csv_sum", "x"), ("sqlite_query", "SELECT 1")]:
        assert f"at most {MAX_BYTES}" in refused(name, argument, big)
    assert f"at most {MAX_YAML}" in refused("yaml_value", "a", b"- a\n" * (MAX_YAML // 4 + 1))


def test_an_answer_beyond_its_size() -> None:
    assert "a key has at most" in refused("csv_column", "A", b"A\n" + b"0123456789\n" * 100_000)


def test_csv_with_a_field_beyond_the_modules_limit() -> None:
    assert "not CSV: field larger" in refused("csv_sum", "A", b"A\n" + b"x" * 200_000)


@pytest.mark.parametrize("text", cases(__file__, "doctypes"))
def test_xml_with_a_doctype(text: str) -> None:
    assert "DOCTYPE" in refused("xpath_value", ".", text)


def test_the_word_doctype_in_a_text_is_no_doctype() -> None:
    text = "<!-- <!DOCTYPE --><a><![CDATA[<!DOCTYPE x>]]></a><!-- <!DOCTYPE -->"
    with closing(OpenFile("file", text.encode())) as file:
        assert call_function("xpath_value", ["."], file) == "<!DOCTYPE x>"


@pytest.mark.parametrize(
    "text", ["", "a", "<a>", "<a></b>", "<a>&e;</a>", "<a/><b/>", "<a b='1' b='2'/>", "<a>\x00</a>"]
)
def test_what_is_no_xml(text: str) -> None:
    assert "XML" in refused("xpath_value", ".", text)


def test_xml_that_is_too_deep() -> None:
    for depth in (201, 100_000):
        text = "<a>" * depth + "7" + "</a>" * depth
        assert "nested deeper than 200" in refused("xpath_count", "//a", text)
    with closing(OpenFile("file", ("<a>" * 200 + "7" + "</a>" * 200).encode())) as file:
        assert call_function("xpath_count", ["//a"], file) == "200"
        assert call_function("xpath_value", ["//a[. = '7'][not(a)]"], file) == "7"


@pytest.mark.parametrize("name", ["json_value", "xpath_value"])
@pytest.mark.parametrize(
    "path",
    [
        *cases(__file__, "paths"),
        "a" * 5_000,
        "a[" * 900,
        "[?" * 900,
        "a[" + "(" * 900,
        "a[" + "- " * 900 + "1]",
        "a[?" + "(" * 900,
    ],
)
def test_paths_that_are_none(name: str, path: str) -> None:
    refused(name, path, '{"a": 1}' if name == "json_value" else "<a/>")


POISONS = [
    *("a[" * 660 + "1" + "]" * 660, "a[" + "(" * 990 + "1" + ")" * 990 + "]", "a/" * 999 + "a"),
    *("a[" + "-" * 1900 + "1]", "a[" + "not(" * 390 + "1" + ")" * 390 + "]", "//a" * 660),
    *("a" + " " * 1990 + "b", "*" * 1990, "a[1" + "=1" * 990 + "]", "{a}" * 660, "a" + "[1]" * 660),
    *("a[" + "9" * 1990 + "]", "a[1" + "+1" * 990 + "]", "a['" + "x" * 1990, "(:" * 990),
]


def test_no_path_takes_long_to_compile() -> None:
    """They are compiled in the process that reads a template."""
    check = XML["xpath_count"].check
    for path in POISONS:
        with suppress(TemplateError):
            run_in_child(ChildLimits(seconds=2, memory=100_000_000), check, (path,)).value()

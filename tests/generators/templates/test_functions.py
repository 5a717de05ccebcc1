"""What functions promise beyond their oracles: where the specification left a choice."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from generators.errors import TemplateError
from generators.templates.functions import FUNCTIONS, call_function
from generators.templates.functions.base import OpenFile
from generators.templates.functions.csv_file import parse_table
from generators.templates.functions.json_yaml import parse_json, parse_yaml
from generators.templates.language.placeholders import parse_text
from tests.cases import cases


def ask(name: str, *arguments: str, data: bytes | str = b"") -> str:
    content = data.encode() if isinstance(data, str) else data
    with closing(OpenFile("artifacts/q1_s1/file", content)) as file:
        return call_function(name, arguments, file)


def refused(name: str, *arguments: str, data: bytes | str = b"") -> str:
    with pytest.raises(TemplateError) as caught:
        ask(name, *arguments, data=data)
    return str(caught.value)


def database(*statements: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    data = connection.serialize()
    connection.close()
    return data


# Errors


def test_an_error_names_the_function_its_arguments_the_file_and_the_reason() -> None:
    said = refused("file_line", "9", data="one\ntwo\n")
    assert said == (
        "{{file_line:9}} on artifacts/q1_s1/file: there is no line 9: the file has lines 1 to 2"
    )


def test_an_error_never_shows_the_data() -> None:
    secret = "s3cret" * 50
    for name, arguments, data in [
        ("json_sum", ["$.a"], f'{{"a": "{secret}'),
        ("yaml_value", ["a.b"], f"a: {secret}\n  {secret}: ["),
        ("xpath_value", ["a"], f"<a>{secret}<b>"),
        ("csv_avg", ["A"], f"A\n{secret}\n"),
        ("csv_value", ["5", "A"], f"A\n{secret}\n"),
        ("sqlite_query", ["SELECT 1"], secret),
        ("sqlite_query", ["SELECT a FROM t"], database("CREATE TABLE t (a)")),
        ("json_value", ["a.b"], f'{{"a": "{secret}"}}'),
    ]:
        assert "s3cret" not in refused(name, *arguments, data=data)


def test_long_arguments_are_cut_in_errors() -> None:
    assert len(refused("json_value", "a" * 1500, data="{}")) < 400


def test_an_unknown_function_is_told_the_nearest() -> None:
    with pytest.raises(TemplateError, match=r"did you mean 'csv_sum'\?"):
        parse_text("{{csv_summ:A:f.csv}}")


def test_a_wrong_number_of_arguments_is_told_the_right_one() -> None:
    with pytest.raises(TemplateError, match="takes 4 arguments and a file, not 3"):
        parse_text("{{csv_count_where:A:B:==:f.csv}}")
    with pytest.raises(TemplateError, match="takes a file last"):
        parse_text("{{csv_sum}}")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    cases(__file__, "what no file could make right is found without one"),
)
def test_what_no_file_could_make_right_is_found_without_one(
    name: str, arguments: list[str], said: str
) -> None:
    with pytest.raises(TemplateError, match=re.escape(said)):
        parse_text(
            "{{" + ":".join((name, *arguments, *["f.txt"] * FUNCTIONS[name].takes_file)) + "}}"
        )
    if name not in ("file_word", "math_add"):
        assert said in refused(name, *arguments, data=b"A,B\n1,2\n")


def test_only_free_texts_hold_colons() -> None:
    free = {name for name, function in FUNCTIONS.items() if function.rest}
    assert free == {
        name
        for name in FUNCTIONS
        if name.startswith(("json_", "yaml_", "xpath_")) or name == "sqlite_query"
    }
    assert {name for name, one in FUNCTIONS.items() if not one.takes_file} == {
        name for name in FUNCTIONS if name.startswith("math_")
    }


# Texts


def test_lines_end_where_python_ends_them() -> None:
    text = "one\r\ntwo\rthree\x0b\u2028still three\n\nfive"
    assert ask("file_line_count", data=text) == "5"
    assert ask("file_line", "3", data=text) == "three\x0b\u2028still three"
    assert ask("file_line", "4", data=text) == ""
    assert ask("file_line_count", data="") == "0"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert ask("file_word", "1", data=b"\xef\xbb\xbfone two") == "one"
    assert ask("csv_sum", "A", data=b"\xef\xbb\xbfA\n2\n") == "2.0"
    assert ask("json_value", "a", data=b'\xef\xbb\xbf{"a": 1}') == "1"


def test_what_is_no_text_is_refused() -> None:
    assert "not UTF-8 text (byte 2)" in refused("file_line", "1", data=b"ab\xff")


# CSV

TABLE = "ID,AGE,TEAM\n1,34,Engineering\n2,,Engineering\n3,41.5,\n\n4,n/a,Sales\n5, 7 ,eng\n"


def test_the_papers_filter_without_operator_is_equality() -> None:
    assert ask("csv_count_where", "ID", "TEAM", "", "Engineering", data=TABLE) == "2"
    assert ask("csv_count_where", "AGE", "TEAM", "==", "Engineering", data=TABLE) == "1"


def test_sums_are_floats_in_full_and_of_none_zero() -> None:
    assert ask("csv_sum", "AGE", data=TABLE) == "82.5"
    assert ask("csv_sum", "ID", data=TABLE) == "15.0"
    assert ask("csv_sum", "TEAM", data=TABLE) == "0"
    assert ask("csv_sum_where", "AGE", "TEAM", "==", "Nobody", data=TABLE) == "0"
    assert ask("csv_avg", "AGE", data="AGE\n1\n1\n2\n") == "1.3333333333333333"


def test_a_person_called_nan_is_no_number() -> None:
    assert ask("csv_sum", "A", data="A\nNan\ninfinity\n1_000\n2\n") == "2.0"
    assert ask("csv_count_where", "A", "A", ">", "1", data="A\nNan\n2\n") == "2"  # as texts


def test_a_number_beyond_floats_is_an_error_not_infinity() -> None:
    assert "too large" in refused("csv_sum", "A", data="A\n1e999\n")
    assert "too large" in refused("csv_sum", "A", data="A\n1e308\n1e308\n")
    assert "too large" in refused("json_sum", "$.a[*]", data='{"a": [1%s]}' % ("0" * 400))


def test_sums_go_from_left_to_right() -> None:
    assert ask("csv_sum", "A", data="A\n1e16\n1\n-1e16\n") == "0.0"
    assert ask("json_sum", "$[*]", data="[1e16, 1, -1e16]") == "0.0"


def test_an_empty_line_is_a_row_without_cells() -> None:
    assert ask("csv_row", "4", data=TABLE) == ""
    assert ask("csv_value", "3", "TEAM", data=TABLE) == ""
    assert ask("csv_count", "ID", data=TABLE) == "5"


def test_an_index_may_be_counted_from_another_calls_result() -> None:
    assert ask("csv_cell", "5-1+2", "1", data=TABLE) == " 7 "


def test_a_table_without_a_head_has_no_rows() -> None:
    assert "no rows" in refused("csv_count", "ID", data="")


# SQLite

SHOP = database(
    "CREATE TABLE first_one (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, pay REAL, raw BLOB)",
    "INSERT INTO first_one VALUES (1, 'a: b', 10.0, x'00'), (2, NULL, 0.1, x'01')",
    'CREATE TABLE "odd ""name" ("select" TEXT)',
    'INSERT INTO "odd ""name" VALUES (\'v\')',
    "CREATE VIEW rich AS SELECT name AS who FROM first_one WHERE pay > 1",
    "CREATE INDEX backwards ON first_one (name DESC)",
)


def test_null_is_the_empty_text() -> None:
    assert ask("sqlite_query", "SELECT name FROM first_one WHERE id = 2", data=SHOP) == ""
    assert ask("sqlite_query", "SELECT SUM(pay) FROM first_one WHERE id > 9", data=SHOP) == ""


def test_values_are_in_stored_order_by_name_or_place() -> None:
    assert ask("sqlite_value", "0", "name", data=SHOP) == "a: b"
    assert ask("sqlite_value", "1", "1", data=SHOP) == ""
    assert ask("sqlite_value", "1", "PAY", "FIRST_ONE", data=SHOP) == "0.1"
    assert ask("sqlite_value", "0", "who", "rich", data=SHOP) == "a: b"
    assert ask("sqlite_value", "0", "select", 'odd "name', data=SHOP) == "v"


def test_a_query_may_read_what_describes_the_database() -> None:
    assert ask("sqlite_query", "PRAGMA user_version", data=SHOP) == "0"
    names = "SELECT group_concat(name) FROM pragma_table_info('first_one')"
    assert ask("sqlite_query", names, data=SHOP) == "id,name,pay,raw"
    assert ask("sqlite_query", "SELECT COUNT(*) FROM json_each('[1,2]')", data=SHOP) == "2"


def test_a_database_with_a_write_ahead_log_in_its_header_is_read() -> None:
    logged = SHOP[:18] + b"\2\2" + SHOP[20:]
    assert ask("sqlite_query", "SELECT COUNT(*) FROM first_one", data=logged) == "2"


# JSON and YAML

PLAN = cases(__file__, "plan")


@pytest.mark.parametrize(
    ("path", "value"), cases(__file__, "values are written as python does and containers as json")
)
def test_values_are_written_as_python_does_and_containers_as_json(path: str, value: str) -> None:
    assert ask("json_path", path, data=PLAN) == value
    assert ask("yaml_value", path, data=PLAN) == value


@pytest.mark.parametrize(("filtered", "count"), cases(__file__, "filters"))
def test_filters(filtered: str, count: str) -> None:
    assert ask("json_count_where", f"$.items[?{filtered}]", data=PLAN) == count


def test_sums_over_nothing_are_zero() -> None:
    for verb in ("sum", "avg", "max", "min"):
        assert ask(f"json_{verb}", "$.gone[*].x", data=PLAN) == "0"
        assert ask(f"yaml_{verb}", "$.items[*].tags", data=PLAN) == "0"
    assert ask("json_collect", "$.gone[*]", data=PLAN) == ""
    assert ask("json_count", "$.items[*].tags[*]", data=PLAN) == "2"


def test_truth_is_no_number() -> None:
    assert ask("json_sum", "$.*", data='{"a": true, "b": 2, "c": "3"}') == "5.0"


def test_yaml_has_dates_keys_of_all_kinds_and_aliases() -> None:
    text = "2024: {first: 2025-03-01}\nbase: &b {n: 2}\nmore: [*b, *b, {<<: *b, m: 3}]\n"
    assert ask("yaml_value", "2024.first", data=text) == "2025-03-01"
    assert ask("yaml_value", "2024", data=text) == '{"first": "2025-03-01"}'
    assert ask("yaml_keys", data=text) == "2024,base,more"
    assert ask("yaml_sum", "$.more[*].n", data=text) == "6.0"


# XML

FIRM = cases(__file__, "firm")


@pytest.mark.parametrize(("name", "path", "value"), cases(__file__, "xpath"))
def test_xpath(name: str, path: str, value: str) -> None:
    assert ask(name, path, data=FIRM) == value


def test_the_text_of_an_element_keeps_the_order_of_its_parts() -> None:
    mixed = "<r><p>1<b>2<i>3</i>4</b>5</p></r>"
    for path in ("p", "p[. = 12345]", "p[contains(., '234')]", "p[string(b) = '234']"):
        assert ask("xpath_value", path, data=mixed) == "12345"


DATA = {"csv": TABLE, "sqlite": SHOP, "json": PLAN, "xpath": FIRM}


@pytest.mark.parametrize(("name", "arguments", "said"), cases(__file__, "no such value"))
def test_what_leads_to_no_such_value_is_refused(name: str, arguments: list[str], said: str) -> None:
    """An average of none too; and names are names, never SQL."""
    assert said in refused(name, *arguments, data=DATA[name.partition("_")[0]])


# Arithmetic


@pytest.mark.parametrize(
    ("name", "arguments", "value"), cases(__file__, "arithmetic is that of decimals")
)
def test_arithmetic_is_that_of_decimals(name: str, arguments: list[str], value: str) -> None:
    assert call_function(name, arguments, None) == value


@pytest.mark.parametrize(("name", "arguments"), cases(__file__, "arithmetic that cannot be"))
def test_arithmetic_that_cannot_be(name: str, arguments: list[str]) -> None:
    with pytest.raises(TemplateError, match=name):
        call_function(name, arguments, None)


def test_parsed_forms_are_kept() -> None:
    file = OpenFile("f", b'{"a": [1, 2]}')
    assert file.parsed(parse_json) is file.parsed(parse_json)
    assert file.parsed(parse_yaml) is file.parsed(parse_yaml)
    assert file.parsed(parse_table) is file.parsed(parse_table)
    file.close()
    file.close()

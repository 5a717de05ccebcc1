"""Databases: read by SQLite itself, which did not write them."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.components.sqlite.file_format import PAGE, Pages, encoded, varint
from tests.cases import cases
from tests.generators.templates import component_samples as samples


def opened(data: bytes) -> sqlite3.Connection:
    """The database, after SQLite has looked through every page of it."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return connection


def database(content: Any, seed: Seed = samples.SEED) -> sqlite3.Connection:
    return opened(samples.made("create_sqlite", content, seed=seed)[0].data)


def column(connection: sqlite3.Connection, table: str, name: str) -> list[Any]:
    quoted = [each.replace('"', '""') for each in (name, table)]
    return [row[0] for row in connection.execute('SELECT "{}" FROM "{}"'.format(*quoted))]


def one(*columns: Any, rows: int = 30) -> dict[str, Any]:
    return {"columns": list(columns), "rows": rows}


def refusal(content: Any) -> str:
    with pytest.raises(TemplateError) as caught:
        samples.maker("create_sqlite", content)
    return str(caught.value)


def test_the_shop_is_what_was_asked_for():
    shop = database(samples.SHOP)
    tables = shop.execute("SELECT name FROM sqlite_schema ORDER BY rootpage").fetchall()
    assert tables == [("customers",), ("sqlite_sequence",), ("orders",)]
    assert column(shop, "customers", "CUST_ID") == list(range(1, 21))
    assert column(shop, "orders", "ORD_ID") == list(range(1, 76))
    assert set(column(shop, "orders", "CUST_REF")) <= set(range(1, 21))
    assert len(set(column(shop, "orders", "CUST_REF"))) > 10
    assert all(1000 <= value <= 100_000 for value in column(shop, "orders", "ORD_AMT"))
    assert all(isinstance(value, float) for value in column(shop, "orders", "PRICE"))
    assert set(column(shop, "orders", "PAID")) == {0, 1}
    kinds = shop.execute("SELECT DISTINCT typeof(PAID), typeof(SENT), typeof(PRICE) FROM orders")
    assert kinds.fetchall() == [("integer", "text", "real")]
    joined = "SELECT COUNT(*) FROM orders JOIN customers ON CUST_REF = CUST_ID"
    assert shop.execute(joined).fetchone() == (75,)


def test_declared_references_are_kept_by_the_database_too():
    shop = database(samples.SHOP)
    shop.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        shop.execute("DELETE FROM customers")
    parents = {row[2]: row[4] for row in shop.execute("PRAGMA foreign_key_list(orders)")}
    assert parents == {"customers": "CUST_ID"}


def test_the_database_goes_on_being_written_to():
    shop = database(samples.SHOP)
    shop.execute("INSERT INTO customers (CUST_NM, BOSS) VALUES ('New Hand', 1)")
    assert column(shop, "customers", "CUST_ID")[-1] == 21
    shop.execute("CREATE INDEX i ON orders (ORD_AMT)")
    shop.commit()
    shop.execute("VACUUM")
    assert shop.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_it_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "shop.db"
    path.write_bytes(samples.made("create_sqlite", samples.SHOP)[0].data)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM orders").fetchone() == (75,)
    connection.close()
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db"]  # no journal


def test_the_bytes_name_no_library_version():
    data = samples.made("create_sqlite", samples.SHOP)[0].data
    assert int.from_bytes(data[96:100], "big") == 3_040_001
    assert data[24:28] == data[92:96]  # the page count is to be trusted
    assert int.from_bytes(data[28:32], "big") * PAGE == len(data)


def test_types_as_the_database_stores_them():
    kinds = database(
        one(
            {"name": "t", "type": "TEXT", "data_type": "id"},
            {"name": "i", "type": "INTEGER", "data_type": "price"},
            {"name": "r", "type": "REAL", "data_type": "age"},
            {"name": "b", "type": "TEXT", "data_type": "boolean"},
            {"name": "n", "type": "INTEGER", "data_type": "boolean"},
            {"name": "p", "type": "TEXT", "data_type": "price"},
            rows=2000,
        )
    )
    found = kinds.execute("SELECT DISTINCT typeof(t), typeof(r), typeof(b), typeof(n) FROM data")
    assert found.fetchall() == [("text", "real", "text", "integer")]
    assert set(column(kinds, "data", "b")) == {"true", "false", "yes", "no", "1", "0"}
    whole = [value for value in column(kinds, "data", "i") if value == int(value)]
    assert whole
    assert all(isinstance(value, int) for value in whole)
    # The same as SQLite would make of them itself.
    copy = sqlite3.connect(":memory:")
    copy.execute(kinds.execute("SELECT sql FROM sqlite_schema").fetchone()[0])
    rows = kinds.execute("SELECT * FROM data").fetchall()
    copy.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?, ?)", rows)
    assert [list(map(repr, row)) for row in copy.execute("SELECT * FROM data")] == [
        list(map(repr, row)) for row in rows
    ]


def test_names_suggest_values_where_no_data_type_is_given():
    found = database(
        one(
            "email",
            {"name": "user_age", "type": "INTEGER"},
            {"name": "Amount", "type": "integer"},
            {"name": "n", "type": "INTEGER"},
            {"name": "r", "type": "REAL"},
            {"name": "d", "type": "DATE"},
            rows=3000,
        )
    )
    assert all("@" in value for value in column(found, "data", "email"))
    for name, low, high in (("user_age", 18, 70), ("Amount", 100, 50_000), ("n", 1, 1000)):
        values = column(found, "data", name)
        assert low <= min(values) < max(values) <= high
    assert 1 <= min(column(found, "data", "r")) < max(column(found, "data", "r")) <= 1000
    assert min(column(found, "data", "d")).startswith("2020-01")


@pytest.mark.parametrize("key", ["p.k", "p", {"table": "p", "column": "k"}, {"table": "P"}])
def test_the_forms_of_foreign_keys(key: Any):
    tables = [
        {"name": "c", "columns": [{"name": "x", "type": "INTEGER", "foreign_key": key}]},
        {"name": "p", "columns": [{"name": "k", "type": "auto_id"}], "rows": 3},
    ]
    assert set(column(database({"tables": tables}), "c", "x")) <= {1, 2, 3}


def test_a_key_that_is_no_row_number_takes_the_parents_values():
    tables = cases(__file__, "no_row_number")
    found = database({"tables": tables})
    cities = set(column(found, "a.b", "id"))
    assert set(column(found, "c", "x")) == cities
    assert set(column(found, "d", "y")) <= cities


def test_a_table_may_refer_to_its_own_rows():
    found = database(
        one(
            {"name": "boss", "type": "INTEGER", "foreign_key": "data.id"},
            {"name": "id", "type": "auto_id"},
            {"name": "friend", "type": "TEXT", "foreign_key": "data.name"},
            {"name": "name", "type": "TEXT"},
        )
    )
    assert set(column(found, "data", "boss")) <= set(range(1, 31))
    assert set(column(found, "data", "friend")) <= set(column(found, "data", "name"))


HOSTILE = cases(__file__, "hostile")


def test_hostile_names_are_only_names():
    columns = [{"name": name, "type": "TEXT", "data_type": "id"} for name in HOSTILE]
    tables = [{"name": name, "columns": columns, "rows": 3} for name in HOSTILE]
    found = database({"tables": tables})
    assert [row[0] for row in found.execute("SELECT name FROM sqlite_schema")] == HOSTILE
    for name in HOSTILE:
        assert [row[1] for row in found.execute("SELECT * FROM pragma_table_info(?)", (name,))] == (
            HOSTILE
        )


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12).filter(
    lambda name: not name.lower().startswith("sqlite_")
)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(names, min_size=1, max_size=6, unique_by=str.lower), st.integers(0, 40))
def test_any_name_and_any_count_of_rows(found: list[str], rows: int):
    columns = [{"name": name, "type": "TEXT", "data_type": "lorem_words"} for name in found]
    made = database({"table_name": found[0], "columns": columns, "rows": rows})
    assert len(column(made, found[0], found[-1])) == rows


@pytest.mark.parametrize("rows", [0, 1, 127, 128, 5000, 120_000])
def test_tables_of_every_size(rows: int):
    columns = ({"name": "id", "type": "auto_id"}, {"name": "x", "type": "INTEGER"})
    found = database(one(*columns, {"name": "s", "type": "TEXT"}, rows=rows))
    assert found.execute("SELECT COUNT(*), MAX(id) FROM data").fetchone() == (rows, rows or None)
    numbers = found.execute("SELECT * FROM sqlite_sequence").fetchall()
    assert numbers == ([("data", rows)] if rows else [])
    for number in {1, rows // 2, rows} & set(range(1, rows + 1)):
        assert found.execute("SELECT COUNT(*) FROM data WHERE id = ?", (number,)).fetchone() == (1,)


def test_wide_tables_and_rows_that_overflow():
    columns = [{"name": f"c{n}", "type": "TEXT", "data_type": "lorem_words"} for n in range(700)]
    found = database({"columns": columns, "rows": 40})
    assert len(found.execute("SELECT * FROM data").fetchall()[39]) == 700
    many = [{"name": f"t{n}", "columns": columns[:30], "rows": 1} for n in range(60)]
    assert len(database({"tables": many}).execute("SELECT * FROM sqlite_schema").fetchall()) == 60


values = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300),
        st.none() | st.integers(0, 1),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(values)
def test_what_is_written_is_read(rows: list[tuple[Any, ...]]):
    pages = Pages()
    root = pages.reserve()
    sql = "CREATE TABLE t (i INTEGER, f REAL, s TEXT, n)"
    schema = [encoded([each]) for each in ("table", "t", "t", root, sql)]
    pages.table(1, schema)
    columns = [encoded(list(each)) for each in zip(*rows, strict=True)]
    pages.table(root, columns or [([], [])])
    found = opened(pages.database()).execute("SELECT * FROM t").fetchall()
    assert [list(map(repr, row)) for row in found] == [list(map(repr, row)) for row in rows]


@pytest.mark.parametrize("length", [4000, 4054, 4055, 4056, 4061, 4062, 8200, 100_000])
def test_long_rows_spill_at_the_right_byte(length: int):
    pages = Pages()
    root = pages.reserve()
    sql = "CREATE TABLE t (s TEXT)"
    pages.table(1, [encoded([each]) for each in ("table", "t", "t", root, sql)])
    texts = ["a" * length, "b", "c" * (length + 1)]
    pages.table(root, [encoded(texts)])
    assert column(opened(pages.database()), "t", "s") == texts


def test_numbers_of_varying_length():
    for value in (0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 2**31):
        coded = varint(value)
        read = 0
        for byte in coded:
            read = read << 7 | byte & 0x7F
        assert read == value
        assert [byte >> 7 for byte in coded] == [1] * (len(coded) - 1) + [0]


def test_the_space_counts_rows_columns_and_references():
    space = samples.maker("create_sqlite", cases(__file__, "shop")).log10_space
    assert space == pytest.approx(7 * (1 + math.log10(53)))


INT = {"name": "i", "type": "INTEGER"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        *cases(__file__, "bad_databases"),
        ({"columns": [INT] * 1001}, "content.columns: 1001 columns"),
        ({"tables": [{"name": "t", "columns": [INT]}] * 9000}, "content.tables: 9000 tables; 1"),
    ],
)
def test_bad_databases_are_refused(content: Any, complaint: str):
    assert refusal(content).startswith(complaint)


def test_references_in_a_circle_and_to_nothing_are_refused():
    tables: list[dict[str, Any]] = [
        {"name": "a", "columns": [{"name": "x", "type": "INTEGER", "foreign_key": "b.x"}]},
        {"name": "b", "columns": [{"name": "x", "type": "INTEGER", "foreign_key": "a.x"}]},
    ]
    assert refusal({"tables": tables}) == (
        "content.tables[0].columns: references in a circle: a → b → a"
    )
    tables[1] = {"name": "b", "columns": [{"name": "x", "type": "auto_id"}], "rows": 0}
    assert "table 'b' has no rows to refer to" in refusal({"tables": tables})
    tables[1] = {**tables[0]}
    assert "table 'a' stands twice" in refusal({"tables": tables})


def test_rows_in_all_tables_together_are_bounded():
    tables = [{"name": f"t{n}", "columns": ["a"], "rows": 300_000} for n in range(4)]
    assert refusal({"tables": tables}).startswith("content.tables[3].rows: up to 1,200,000 values")

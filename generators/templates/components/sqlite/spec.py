"""A template's database tables: read, checked, and ordered so that references can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError
from typing import Any

from generators.errors import nearest
from generators.templates.components.csv_table import type_at
from generators.templates.functions.base import quote_name
from generators.templates.language.components_section import in_order
from generators.templates.language.data_types import (
    MOMENT,
    DataType,
    hundredths,
    infer_type,
    integers,
)
from generators.templates.language.diagnostics import (
    check_size,
    gathered,
    line,
    mapping,
    refuse,
    refuse_all,
    sequence,
    shown,
    whole,
)
from generators.templates.language.keys import COLUMN_KEYS, TABLE_KEYS
from generators.templates.language.values import ValueSet

DEFAULT_TABLE, DEFAULT_ROWS, DEFAULT_KEY = "data", 5, "id"
MOST_TABLES, MOST_COLUMNS, LONGEST_NAME = 200, 1000, 200
AUTO_ID = "auto_id"
# Each type that a column may be given, and the one that the database knows it by.
AFFINITIES = {
    "TEXT": "TEXT",
    "INTEGER": "INTEGER",
    "REAL": "REAL",
    "BOOLEAN": "INTEGER",
    "DATE": "TEXT",
    "DATETIME": "TEXT",
    AUTO_ID: "INTEGER PRIMARY KEY AUTOINCREMENT",
}

_SMALL = integers("integer", 1, 1000)
_AMOUNT = integers("amount", 100, 50_000)
_REAL = hundredths("real", 100, 100_000)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    name: str
    affinity: str
    kind: DataType | None  # None for auto_id and references
    path: str
    asked: Any = None  # the value of foreign_key
    reference: tuple[str, int] | None = None  # a table's name and the place of its column
    choices: int = 0  # how many values a reference chooses among, at most
    width: int = 9  # bytes of a value, at most
    declared: str = ""  # SQL after its type: only primary keys, which are unique, are referred to

    @property
    def is_number(self) -> bool:
        """True if its values are the rows' own numbers."""
        return self.kind is None and self.asked is None


@dataclass(frozen=True, slots=True)
class TableSpec:
    name: str
    rows: int
    columns: tuple[ColumnSpec, ...]
    path: str

    @property
    def number_column(self) -> int | None:
        """The index of the column that holds the row numbers, if there is one."""
        places = [index for index, column in enumerate(self.columns) if column.is_number]
        return places[0] if places else None

    def refers_to_itself(self, index: int) -> bool:
        """True if a column refers to a column of its own table."""
        reference = self.columns[index].reference
        return reference is not None and reference[0] == self.name

    def source(self, index: int, tables: Sequence[TableSpec]) -> DataType | None:
        """The type of the values that stand in a column at last, through references; None for
        row numbers."""
        column = self.columns[index]
        if column.reference is None:
            return column.kind
        parent = next(table for table in tables if table.name == column.reference[0])
        return parent.source(column.reference[1], tables)

    def statement(self) -> str:
        """The SQL that creates it, every name quoted."""
        columns = ", ".join(
            f"{quote_name(column.name)} {column.affinity}{column.declared}"
            for column in self.columns
        )
        return f"CREATE TABLE {quote_name(self.name)} ({columns})"


def read_tables(content: Mapping[str, Any], values: ValueSet) -> tuple[TableSpec, ...]:
    """The tables that a component's ``content`` describes, each after those that it refers to.

    Raises TemplateError for what is unknown, misspelt, doubled or of a wrong kind, for a
    reference that leads nowhere or in a circle, and for more than memory should hold.
    """
    tables = _tables(content, values)
    _check_names(tables)
    ordered = _ordered(gathered(partial(_linked, table, tables) for table in tables))
    _check_size(ordered)
    return ordered


def _tables(content: Mapping[str, Any], values: ValueSet) -> list[TableSpec]:
    if "tables" not in content:
        mapping("content", content, ("table_name", "columns", "rows"))
        name = content.get("table_name", DEFAULT_TABLE)
        return [_table("content", "content.table_name", name, content, values)]
    mapping("content", content, ("tables",))
    written = sequence("content.tables", content["tables"])
    if not 0 < len(written) <= MOST_TABLES:
        refuse("content.tables", f"{len(written)} tables; 1 to {MOST_TABLES} are wanted")

    def read(index: int, table: Any) -> TableSpec:
        path = f"content.tables[{index}]"
        mapping(path, table, TABLE_KEYS)
        return _table(path, f"{path}.name", table.get("name"), table, values)

    return gathered(partial(read, *table) for table in enumerate(written))


def _table(
    path: str, name_path: str, name: Any, written: Mapping[str, Any], values: ValueSet
) -> TableSpec:
    given = enumerate(sequence(f"{path}.columns", written.get("columns")))
    table, rows, *columns = gathered(
        (
            partial(_name, name_path, name),
            partial(whole, f"{path}.rows", written.get("rows", DEFAULT_ROWS)),
            *(partial(_column, f"{path}.columns[{i}]", column, values) for i, column in given),
        )
    )
    if not 0 < len(columns) <= MOST_COLUMNS:
        refuse(f"{path}.columns", f"{len(columns)} columns; 1 to {MOST_COLUMNS} are wanted")
    return TableSpec(table, rows, tuple(columns), path)


def _name(path: str, value: Any) -> str:
    name = line(path, value)
    if name.lower().startswith("sqlite_"):
        refuse(path, f"{name!r}: names that begin with sqlite_ belong to the database itself")
    if len(name) > LONGEST_NAME or not name.isprintable():
        refuse(path, f"a name of at most {LONGEST_NAME} printable characters is wanted")
    return name


def _column(path: str, written: Any, values: ValueSet) -> ColumnSpec:
    if isinstance(written, str):
        written = {"name": written, "type": "TEXT"}
    mapping(path, written, COLUMN_KEYS)
    name = _name(f"{path}.name", written.get("name"))
    type_ = _type(f"{path}.type", written.get("type"))
    asked = written.get("foreign_key")
    if type_ == AUTO_ID:
        for key in ("data_type", "foreign_key"):
            if written.get(key) is not None:
                refuse(f"{path}.{key}", "an auto_id column numbers its rows; it takes no other")
        return ColumnSpec(name, AFFINITIES[type_], None, path)
    kind = _kind(path, name, type_, written.get("data_type"), values)
    if kind.sql == "BOOLEAN" and AFFINITIES[type_] == "TEXT":
        kind = kind.as_text
    if asked is not None:
        return ColumnSpec(name, AFFINITIES[type_], None, path, asked)
    return ColumnSpec(name, AFFINITIES[type_], kind, path, width=max(kind.longest, 8) + 1)


def _type(path: str, value: Any) -> str:
    name = line(path, value)
    affinity = next((known for known in AFFINITIES if known.lower() == name.lower()), None)
    if affinity is None:
        refuse(path, f"unknown type {name!r}; {nearest(name, AFFINITIES)}")
    return affinity


def _kind(path: str, name: str, type_: str, data_type: Any, values: ValueSet) -> DataType:
    """Return a column's data type: the given one, or the one that its type and name suggest."""
    if data_type is not None:
        return type_at(f"{path}.data_type", data_type, values)
    if type_ == "INTEGER":
        lower = name.lower()
        if "age" in lower:
            return values.type("age")
        return _AMOUNT if "amount" in lower or "price" in lower else _SMALL
    types = {"BOOLEAN": "boolean", "DATE": "date", "TEXT": infer_type(name)}
    own = {"REAL": _REAL, "DATETIME": MOMENT}
    return own.get(type_) or values.type(types[type_])


def _check_names(tables: Sequence[TableSpec]) -> None:
    complaints = _twice("table", tables)
    for table in tables:
        complaints += _twice("column", table.columns)
        numbers = [column for column in table.columns if column.is_number]
        if len(numbers) > 1:
            complaints.append(f"{numbers[1].path}.type: a second auto_id; a table takes one")
    refuse_all(complaints)


def _twice(kind: str, named: Sequence[TableSpec | ColumnSpec]) -> list[str]:
    """A complaint about each that has the name of an earlier one."""
    names = [each.name.lower() for each in named]
    return [
        f"{each.path}.name: {kind} {each.name!r} stands twice"
        for place, each in enumerate(named)
        if each.name.lower() in names[:place]
    ]


def _linked(table: TableSpec, tables: Sequence[TableSpec]) -> TableSpec:
    """The table with its references found."""
    columns = gathered(partial(_link, column, table, tables) for column in table.columns)
    return replace(table, columns=tuple(columns))


def _link(column: ColumnSpec, table: TableSpec, tables: Sequence[TableSpec]) -> ColumnSpec:
    if column.asked is None:
        return column
    path = f"{column.path}.foreign_key"
    name, key = _target(path, column.asked, tables)
    parent = next(table for table in tables if table.name == name)
    index = _key_column(path, parent, key)
    target = parent.columns[index]
    if parent is table and (target.asked is not None or target is column):
        refuse(path, f"a circle: {key or target.name!r} is itself a reference in this table")
    if table.rows and not parent.rows:
        refuse(path, f"table {parent.name!r} has no rows to refer to; give it some")
    unique = parent.number_column == index
    declared = (
        f" REFERENCES {quote_name(parent.name)} ({quote_name(target.name)})" if unique else ""
    )
    return replace(column, reference=(name, index), choices=parent.rows, declared=declared)


def _target(path: str, asked: Any, tables: Sequence[TableSpec]) -> tuple[str, str | None]:
    """The table, and the column if one is named: ``"t.c"``, ``"t"`` or ``{table, column}``."""
    if isinstance(asked, Mapping):
        mapping(path, asked, ("table", "column"))
        column = asked.get("column")
        table = _known_table(f"{path}.table", line(f"{path}.table", asked.get("table")), tables)
        return table, None if column is None else line(f"{path}.column", column)
    if not isinstance(asked, str):
        refuse(path, f'"table.column", "table" or a mapping is wanted, not {shown(asked)}')
    names = {known.name.lower(): known.name for known in tables}
    if asked.lower() in names:
        return names[asked.lower()], None
    parts = asked.split(".")  # a name may itself hold a dot
    for cut in range(1, len(parts)):
        if (table_name := names.get(".".join(parts[:cut]).lower())) is not None:
            return table_name, ".".join(parts[cut:])
    return _known_table(path, parts[0], tables), None


def _known_table(path: str, name: str, tables: Sequence[TableSpec]) -> str:
    table_name = next((table.name for table in tables if table.name.lower() == name.lower()), None)
    if table_name is None:
        known = [table.name for table in tables]
        refuse(path, f"unknown table {name!r}; {nearest(name, known)}")
    return table_name


def _key_column(path: str, table: TableSpec, key: str | None) -> int:
    names = [column.name.lower() for column in table.columns]
    if key is not None:
        if key.lower() in names:
            return names.index(key.lower())
        known = [column.name for column in table.columns]
        refuse(path, f"table {table.name!r} has no column {key!r}; {nearest(key, known)}")
    if DEFAULT_KEY in names:
        return names.index(DEFAULT_KEY)
    if (number := table.number_column) is not None:
        return number
    refuse(path, f"table {table.name!r} has neither a column id nor an auto_id; name a column")


def _ordered(tables: Sequence[TableSpec]) -> tuple[TableSpec, ...]:
    """The tables, each after those that it refers to, else as they are written."""
    by_name = {table.name: table for table in tables}
    try:
        return tuple(by_name[name] for name in in_order({x.name: _parents(x) for x in tables}))
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]  # each needs the next
        refuse(
            f"{by_name[circle[0]].path}.columns", f"references in a circle: {' → '.join(circle)}"
        )


def _parents(table: TableSpec) -> set[str]:
    return {
        column.reference[0]
        for column in table.columns
        if column.reference is not None and column.reference[0] != table.name
    }


def _check_size(tables: Sequence[TableSpec]) -> None:
    values, size = 0, 0
    by_name = {table.name: table for table in tables}
    for table in tables:
        values += table.rows * len(table.columns)
        widths = sum(_width(column, by_name) + 2 for column in table.columns)
        size += table.rows * (widths + 16) + 4096 + len(table.statement().encode())
        check_size(f"{table.path}.rows", values, size)


def _width(column: ColumnSpec, tables: Mapping[str, TableSpec]) -> int:
    while column.reference is not None:
        column = tables[column.reference[0]].columns[column.reference[1]]
    return column.width

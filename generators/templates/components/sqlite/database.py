"""``create_sqlite``: a database of tables in which every reference is valid."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generators.stream import Stream
from generators.templates.components.sqlite.file_format import Encoded, Pages, encoded, nothing
from generators.templates.components.sqlite.spec import ColumnSpec, TableSpec, read_tables
from generators.templates.language.data_types import DataType, as_list, integers, partners
from generators.templates.language.values import ValueSet

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Units = NDArray[float64]

# A text that SQLite reads as a number.
_NUMBER = re.compile(
    r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?\s*", re.ASCII
)
_ROW_NUMBER = integers("row", 1, 2)  # as a type: its size is not used
SEQUENCE = "CREATE TABLE sqlite_sequence(name,seq)"


@dataclass(frozen=True, slots=True)
class SqliteColumn:
    """One column: the source of its values, and how its affinity would store them."""

    kind: DataType | None  # None for row numbers and references
    parent: tuple[int, int] | None  # the table and column that it refers to
    parent_rows: int  # where those are row numbers; 0 elsewhere
    store: Callable[[list[Any]], list[Any]] | None  # None if values are stored as drawn
    size: int  # of the index that a value is made from; 0 if it takes a uniform

    @property
    def drawn(self) -> bool:
        """True if the values are drawn, and not the numbers of the rows."""
        return self.kind is not None or self.parent is not None


@dataclass(frozen=True, slots=True)
class SqliteTable:
    root: int
    rows: int
    columns: tuple[SqliteColumn, ...]
    order: tuple[int, ...]  # of drawing: references within the table come after the rest
    sizes: Units  # of the columns that are drawn, in that order, one below the other
    together: tuple[tuple[int, int], ...]  # those that go with an earlier one, in that order


@dataclass(frozen=True, slots=True)
class Database:
    """Tables in an order that keeps references, and the pages that are the same every time."""

    tables: tuple[SqliteTable, ...]
    start: Pages
    draws: int
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        """The bytes of the database file."""
        units = stream.uniforms(self.draws)
        pages = self.start.copy()
        made: list[list[list[Any]]] = []
        taken = 0
        for table in self.tables:
            count = len(table.order) * table.rows
            part = units[taken : taken + count].reshape(len(table.order), table.rows)
            taken += count
            pages.table(table.root, _columns_of(table, part, made))
        return pages.database()


def _columns_of(table: SqliteTable, units: Units, made: list[list[list[Any]]]) -> list[Encoded]:
    """The columns of a table as the file holds them. Their values are added to ``made``, for
    tables that refer to them."""
    values: list[list[Any]] = [[] for _ in table.columns]
    made.append(values)
    stored = [nothing(table.rows)] * len(table.columns)  # a row's number stands apart from it
    for later, earlier in table.together:
        units[later] = units[earlier]
    indices = (units * table.sizes).astype("int64")
    for row, place in enumerate(table.order):
        column = table.columns[place]
        values[place] = drawn = _values(column, indices[row] if column.size else units[row], made)
        stored[place] = encoded(drawn if column.store is None else column.store(drawn))
    return stored


def _values(column: SqliteColumn, drawn: Any, made: list[list[list[Any]]]) -> list[Any]:
    if column.kind is not None:
        return column.kind.at(drawn)
    if column.parent is None or column.parent_rows:
        return as_list(drawn + 1)
    table, index = column.parent
    return list(map(made[table][index].__getitem__, drawn.tolist()))


def write_database(
    tables: Sequence[tuple[str, str, Sequence[tuple[str | int | float, ...]]]],
) -> bytes:
    """The bytes of a database of such tables: each one's name, its CREATE statement, and its rows.
    The first column of the statement is ``INTEGER PRIMARY KEY``; it numbers the rows from 1, and
    the rows come without it."""
    pages = Pages()
    roots = [pages.reserve() for _ in tables]
    schema = [
        ("table", name, name, root, statement)
        for root, (name, statement, _) in zip(roots, tables, strict=True)
    ]
    pages.table(1, _columns(schema))
    for root, (_, _, rows) in zip(roots, tables, strict=True):
        pages.table(root, [nothing(len(rows)), *_columns(rows)])
    return pages.database()


def compile_sqlite(content: Mapping[str, Any], values: ValueSet) -> Database:
    """The database that a component's ``content`` describes. Raises TemplateError."""
    specs = read_tables(content, values)
    roots = _roots(specs)
    tables = tuple(_table(spec, specs, roots[spec.name]) for spec in specs)
    draws = sum(table.rows * sum(column.drawn for column in table.columns) for table in tables)
    return Database(tables, _start(specs, roots), draws, sum(map(_log10, specs)))


def _roots(specs: Sequence[TableSpec]) -> dict[str, int]:
    """The root pages, in the order in which the library would create the tables."""
    names: list[str] = []
    for spec in specs:
        names.append(spec.name)
        if spec.number_column is not None and "sqlite_sequence" not in names:
            names.append("sqlite_sequence")
    return {name: page for page, name in enumerate(names, start=2)}


def _start(specs: Sequence[TableSpec], roots: Mapping[str, int]) -> Pages:
    """The pages that no draw changes: the schema, and the numbers last given by auto_id."""
    statements = {spec.name: spec.statement() for spec in specs} | {"sqlite_sequence": SEQUENCE}
    rows = [("table", name, name, root, statements[name]) for name, root in roots.items()]
    pages = Pages()
    for _ in roots:
        pages.reserve()
    pages.table(1, _columns(rows))
    if "sqlite_sequence" in roots:
        numbered = [spec for spec in specs if spec.number_column is not None and spec.rows]
        pages.table(
            roots["sqlite_sequence"], _columns([(spec.name, spec.rows) for spec in numbered])
        )
    return pages


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[Encoded]:
    return [encoded(column) for column in zip(*rows, strict=True)] or [([], [])]


def _table(spec: TableSpec, specs: Sequence[TableSpec], root: int) -> SqliteTable:
    import numpy as np

    columns = tuple(_column(column, specs) for column in spec.columns)
    places = [index for index, column in enumerate(columns) if column.drawn]
    order = sorted(places, key=lambda index: spec.refers_to_itself(index))
    sizes = np.array([[float(columns[index].size)] for index in order]).reshape(len(order), 1)
    together = partners([columns[index].kind for index in order])
    return SqliteTable(root, spec.rows, columns, tuple(order), sizes, together=together)


def _column(spec: ColumnSpec, specs: Sequence[TableSpec]) -> SqliteColumn:
    if spec.reference is None:
        if spec.kind is None:
            return SqliteColumn(None, None, 0, None, 0)
        store = _store_of(spec.affinity, spec.kind)
        return SqliteColumn(spec.kind, None, 0, store, spec.kind.size)
    places = {table_spec.name: place for place, table_spec in enumerate(specs)}
    table, index = spec.reference
    parent = specs[places[table]]
    numbers = parent.rows if parent.number_column == index else 0
    kind = parent.source(index, specs)
    store = _store_of(spec.affinity, kind or _ROW_NUMBER)
    return SqliteColumn(None, (places[table], index), numbers, store, parent.rows)


def _store_of(affinity: str, kind: DataType) -> Callable[[list[Any]], list[Any]] | None:
    """Return ``_store`` of a data type; of one with empty cells these stay null."""
    store = _store(affinity, kind)
    if store is None or kind.filled is None:
        return store

    def store_filled(values: list[Any]) -> list[Any]:
        stored = iter(store([value for value in values if value is not None]))
        return [None if value is None else next(stored) for value in values]

    return store_filled


def _store(affinity: str, kind: DataType) -> Callable[[list[Any]], list[Any]] | None:
    """Return SQLite's conversion of values of a type when it stores them; None if they stay."""
    drawn = kind.sql
    if affinity == "TEXT" and drawn != "TEXT":
        return lambda values: list(map(kind.write, values))
    if affinity == "INTEGER" and drawn == "REAL":
        return lambda values: [int(number) if number.is_integer() else number for number in values]
    if drawn == "BOOLEAN":
        return lambda values: list(map(int, values))
    if affinity == "REAL" and drawn == "INTEGER":
        return lambda values: list(map(float, values))
    if affinity != "TEXT" and drawn == "TEXT" and kind.custom:
        return lambda values: [_as_number(value, affinity) for value in values]
    return None


def _as_number(text: str, affinity: str) -> Any:
    """The value of a column of numbers for a text: a number if the text is one."""
    if _NUMBER.fullmatch(text) is None:
        return text
    number = float(text)
    if affinity == "REAL" or not number.is_integer() or abs(number) >= 1 << 53:
        return number
    return int(number)


def _log10(spec: TableSpec) -> float:
    return sum(
        spec.rows
        * (column.kind.log10_values if column.kind else math.log10(max(column.choices, 1)))
        for column in spec.columns
    )

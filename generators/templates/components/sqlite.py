"""``create_sqlite``: a database of tables whose every reference holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generators.stream import Stream
from generators.templates.components.sqlite_columns import (
    ColumnSpec,
    TableSpec,
    read_tables,
)
from generators.templates.components.sqlite_file import Encoded, Pages, encoded
from generators.templates.datatypes import DataType, indices, text

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Units = NDArray[float64]

SEQUENCE = "CREATE TABLE sqlite_sequence(name,seq)"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what its values are made from, and how its affinity would store them."""

    kind: DataType | None  # None for row numbers and references
    parent: tuple[int, int] | None  # the table and column that it refers to
    parent_rows: int  # where those are row numbers; 0 elsewhere
    store: Callable[[list[Any]], list[Any]] | None  # None where values are stored as drawn

    @property
    def drawn(self) -> bool:
        return self.kind is not None or self.parent is not None


@dataclass(frozen=True, slots=True)
class Table:
    root: int
    rows: int
    columns: tuple[Column, ...]
    order: tuple[int, ...]  # of drawing: what refers to this table's own columns comes after them


@dataclass(frozen=True, slots=True)
class Database:
    """Tables in an order that keeps references, and the pages that are the same every time."""

    tables: tuple[Table, ...]
    start: Pages
    draws: int
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        units = stream.uniforms(self.draws)
        pages = self.start.copy()
        made: list[list[list[Any]]] = []
        taken = 0
        for table in self.tables:
            columns: list[list[Any]] = [[] for _ in table.columns]
            made.append(columns)
            for index in table.order:
                if table.columns[index].drawn:
                    part = units[taken : taken + table.rows]
                    taken += table.rows
                    columns[index] = _values(table.columns[index], part, made)
            _write(pages, table, columns)
        return pages.database()


def _values(column: Column, units: Units, made: list[list[list[Any]]]) -> list[Any]:
    if column.kind is not None:
        return column.kind.make(units)
    if column.parent is None or column.parent_rows:
        numbers: list[Any] = ((units * column.parent_rows).astype("int64") + 1).tolist()
        return numbers
    table, index = column.parent
    parents = made[table][index]
    return list(map(parents.__getitem__, indices(units, len(parents))))


def _write(pages: Pages, table: Table, columns: list[list[Any]]) -> None:
    stored = []
    for column, values in zip(table.columns, columns, strict=True):
        if not column.drawn:  # a row's number, which the file holds apart from the row
            stored.append(([0] * table.rows, [b""] * table.rows))
        else:
            stored.append(encoded(values if column.store is None else column.store(values)))
    pages.table(table.root, stored)


def compile_sqlite(content: Mapping[str, Any]) -> Database:
    """The database that a component's ``content`` describes. Raises TemplateError."""
    specs = read_tables(content)
    roots = _roots(specs)
    tables = tuple(_table(spec, specs, roots[spec.name]) for spec in specs)
    draws = sum(table.rows * sum(each.drawn for each in table.columns) for table in tables)
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


def _table(spec: TableSpec, specs: Sequence[TableSpec], root: int) -> Table:
    places = {each.name: index for index, each in enumerate(specs)}
    columns = tuple(_column(each, specs, places) for each in spec.columns)
    order = sorted(range(len(columns)), key=lambda index: spec.refers_to_itself(index))
    return Table(root, spec.rows, columns, tuple(order))


def _column(spec: ColumnSpec, specs: Sequence[TableSpec], places: Mapping[str, int]) -> Column:
    if spec.reference is None:
        store = None if spec.kind is None else _store(spec.affinity, spec.kind.sql, spec.kind)
        return Column(spec.kind, None, 0, store)
    table, index = spec.reference
    parent = specs[places[table]]
    numbers = parent.rows if parent.number_column == index else 0
    kind = parent.source(index, specs)
    store = _store(spec.affinity, "INTEGER" if kind is None else kind.sql, kind)
    return Column(None, (places[table], index), numbers, store)


def _store(
    affinity: str, drawn: str, kind: DataType | None
) -> Callable[[list[Any]], list[Any]] | None:
    """What SQLite itself would do to values of a type on their way into a column."""
    if affinity == "TEXT" and drawn != "TEXT":
        write = text if kind is None else kind.write
        return lambda values: list(map(write, values))
    if affinity == "INTEGER" and drawn == "REAL":
        return lambda values: [int(each) if each.is_integer() else each for each in values]
    if drawn == "BOOLEAN":
        return lambda values: list(map(int, values))
    if affinity == "REAL" and drawn == "INTEGER":
        return lambda values: list(map(float, values))
    return None


def _log10(spec: TableSpec) -> float:
    return sum(
        spec.rows * (each.kind.log10_values if each.kind else math.log10(max(each.choices, 1)))
        for each in spec.columns
    )

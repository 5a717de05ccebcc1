"""Answers of a read-only SQLite database in memory.

A query may be anything that reads. Refused are statements that write, attach, open a
transaction or load an extension, more than one statement, PRAGMAs other than those that
describe the database, and what may answer otherwise another time or elsewhere: chance, the
clock and time zone and what describes SQLite itself. A value may take a quarter of a megabyte.
Bounds and refusals are TemplateLimitError.

As in the public implementation: a query's answer is the first column of its first row; NULL is
the empty text, a float is written in full, no row is an error; ``sqlite_value`` takes the column
by name or, if it is a whole number, by its place from 0, rows in the order that they are stored,
and the first table where none is named (tables of SQLite's own left out). Beyond it, names of
columns and tables are names, never SQL.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from generators.errors import TemplateError, TemplateLimitError, nearest
from generators.templates.functions.base import (
    MAX_BYTES,
    Function,
    Match,
    OpenFile,
    quote_name,
    table_of,
)
from generators.templates.functions.numbers import to_index
from generators.templates.functions.sql_matches import match_query

# --- SQLite's functions of dates, kept from the clock and the time zone ---

Value: TypeAlias = str | int | float | bytes | None

_FUNCTIONS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
_DIFFERENCE = "timediff"  # of two times
_HAS_DIFFERENCE = sqlite3.sqlite_version_info >= (3, 43)
_LONGEST = 40  # characters that are looked at
# As a time the latter two mean now. As modifiers they are, like the others, of some versions only.
_NOW = frozenset(("now", "subsec", "subsecond"))
_OF_THE_MACHINE = frozenset(("localtime", "utc", "subsec", "subsecond", "ceiling", "floor"))


class Clock:
    """The functions of one connection. ``refused`` says why the last call was, if any was."""

    def __init__(self) -> None:
        self.refused = ""

    @cached_property
    def _plain(self) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def bind(self, connection: sqlite3.Connection) -> None:
        """Replace SQLite's own functions on the connection by these. Their results depend on their
        arguments alone, so that SQLite need not call them again."""
        for name in _FUNCTIONS:
            connection.create_function(name, -1, self._function(name), deterministic=True)
        if _HAS_DIFFERENCE:
            difference = self._function(_DIFFERENCE)
            connection.create_function(_DIFFERENCE, 2, difference, deterministic=True)

    def _function(self, name: str) -> Callable[..., Value]:
        def compute(*values: Value) -> Value:
            if refused := refuse_call(name, values):
                self.refused = refused
                raise ValueError(refused)
            places = ",".join("?" * len(values))
            value: Value = self._plain.execute(f"SELECT {name}({places})", values).fetchone()[0]
            return value

        return compute


def refuse_call(name: str, values: tuple[Value, ...]) -> str:
    """Return why a key must not use this; nothing if it may."""
    first = 1 if name == "strftime" else 0  # its format stands before the time
    times = values if name == _DIFFERENCE else values[first : first + 1]
    if not times or any(_text(time) in _NOW for time in times):
        return (
            f"{name}() without a date, or with 'now', asks the clock; a key must not depend on it"
        )
    if name != _DIFFERENCE:
        for modifier in map(_text, values[first + 1 :]):
            if modifier in _OF_THE_MACHINE:
                return f"{name}() with {modifier!r} depends on the machine; a key must not"
    return ""


def _text(value: Value) -> str:
    """As SQLite reads it, and a little less strictly: up to a NUL, case and blanks let be."""
    if isinstance(value, bytes):
        value = value[:_LONGEST].decode("utf-8", "replace")
    return value[:_LONGEST].split("\0", 1)[0].strip().lower() if isinstance(value, str) else ""


MAX_VALUE = 250_000  # bytes
MAX_SQL = 100_000
_MAGIC = b"SQLite format 3\0"
_JOURNAL = slice(18, 20)  # read and write version: 2 is a write-ahead log, of which there is none

_DESCRIBE = {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}
_DESCRIBE |= {"foreign_key_list"}
_STATE = {"user_version", "schema_version", "application_id", "encoding", "page_count"}
_STATE |= {"page_size"}
_FICKLE = {"random", "randomblob", "current_date", "current_time", "current_timestamp"}
_ABOUT_ITSELF = {"sqlite_version", "sqlite_source_id", "fts5_source_id", "sqlite_offset"}
_ABOUT_ITSELF |= {"sqlite_compileoption_get", "sqlite_compileoption_used"}
_ABOUT_ITSELF |= {"changes", "total_changes", "last_insert_rowid"}
_UNSAFE = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_log"}
_REFUSED = {
    **dict.fromkeys(_FICKLE, "gives another answer each time; a key must not depend on it"),
    **dict.fromkeys(_ABOUT_ITSELF, "depends on the version of SQLite; a key must not"),
    **dict.fromkeys(_UNSAFE, "is not for queries"),
}
_STATEMENTS_RUN = "sqlite_stmt"  # table of the statements run on this connection, and their memory
# Behind what SQLite skips: An authorizer is not asked about EXPLAIN.
_EXPLAIN = re.compile(r"(?:[\s;\ufeff]|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?+)*+explain\b", re.I)
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_SQL),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
)
_WRITES = "a query may only read: SELECT, WITH, VALUES"


class OpenDatabase:
    """A connection to a copy of a database file in memory."""

    def __init__(self, data: bytes) -> None:
        """Raises TemplateError if the bytes are no database."""
        self._refused = ""
        self._clock = Clock()
        self._connection = connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        try:
            connection.deserialize(data)
            connection.execute("PRAGMA trusted_schema=OFF")
        except sqlite3.Error as error:
            raise TemplateError(f"the file is not a SQLite database: {error}") from None
        for limit, most in _LIMITS:
            connection.setlimit(limit, most)
        connection.set_authorizer(self._authorize)
        self._clock.bind(connection)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def first(self, sql: str, values: Sequence[str | int] = ()) -> tuple[object, ...] | None:
        """The first row of a query, None if there is none. Raises TemplateError."""
        self._begin()
        cursor = self._connection.cursor()
        try:
            row: tuple[object, ...] | None = cursor.execute(sql, values).fetchone()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            raise self._reason(error) from None
        finally:
            cursor.close()
        return row

    def all(self, sql: str, column: int = 0) -> list[str]:
        """One column of all rows, as texts."""
        self._begin()
        try:
            return [str(row[column]) for row in self._connection.execute(sql)]
        except sqlite3.Error as error:
            raise self._reason(error) from None

    def _begin(self) -> None:
        self._refused = self._clock.refused = ""

    def _authorize(
        self, action: int, one: str | None, two: str | None, base: str | None, within: str | None
    ) -> int:
        refused = ""
        if action in _READS:
            if one == _STATEMENTS_RUN:
                refused = f"{one} depends on the version of SQLite; a key must not"
        elif action == sqlite3.SQLITE_FUNCTION:
            name = (two or "").lower()
            refused = f"{name}() {_REFUSED[name]}" if name in _REFUSED else ""
        elif action == sqlite3.SQLITE_PRAGMA:
            refused = _refuse_pragma((one or "").lower(), two)
        elif action != sqlite3.SQLITE_UPDATE or one != "sqlite_master":
            refused = _WRITES  # that one is asked for json_each(), and SQLite refuses it else
        self._refused = self._refused or refused
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    def _reason(self, error: Exception) -> TemplateError:
        message = str(error)
        if refused := self._refused or self._clock.refused:
            return TemplateLimitError(refused)
        if "too big" in message:
            return TemplateLimitError(f"a value is larger than {MAX_VALUE} bytes")
        if isinstance(error, MemoryError):
            return TemplateLimitError("the query takes more memory than there is")
        if "one statement at a time" in message:
            return TemplateError("there is more than one statement")
        if message.startswith("Could not decode"):  # the rest would show the value
            return TemplateError("the value is not UTF-8 text")
        return TemplateError(message)


def parse_database(file: OpenFile) -> OpenDatabase:
    """The tables of a SQLite file, in memory and to be read only (a parser of OpenFile). Raises
    TemplateError if its bytes are no database."""
    file.check_size(MAX_BYTES)
    data = file.data
    if not data.startswith(_MAGIC) or len(data) < 100:
        raise TemplateError("the file is not a SQLite database")
    if 2 in data[_JOURNAL]:
        data = data[: _JOURNAL.start] + b"\1\1" + data[_JOURNAL.stop :]
    return OpenDatabase(data)


def sqlite_query(arguments: Sequence[str], file: OpenFile) -> str:
    """The first column of the first row of a query."""
    check_query(arguments[0])
    row = file.parsed(parse_database).first(arguments[0])
    if row is None:
        raise TemplateError("the query has no row")
    return to_text(row[0])


def sqlite_value(arguments: Sequence[str], file: OpenFile) -> str:
    """The value at a row, from 0, and a column of a table."""
    row, database = to_index(arguments[0], "the row"), file.parsed(parse_database)
    table, is_view = _find_table(database, arguments[2] if len(arguments) > 2 else None)
    column = _find_column(database, table, arguments[1])
    hint = "" if is_view else " NOT INDEXED"  # an index would give its own order
    first_row = database.first(
        f"SELECT {quote_name(column)} FROM {quote_name(table)}{hint} LIMIT 1 OFFSET ?",  # noqa: S608 - quoted
        (row,),
    )
    if first_row is None:
        raise TemplateError(f"table {table!r} has no row {row}")
    return to_text(first_row[0])


def to_text(value: object) -> str:
    """A value as a key has it. Raises TemplateError for a blob, which is no text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        raise TemplateError("the value is a blob, not a text or a number")
    return str(value)


@lru_cache(maxsize=1024)
def check_query(sql: str) -> None:
    """Raise TemplateError for what SQLite itself would not refuse or could not be stopped in."""
    if not sql.strip():
        raise TemplateError("there is no query")
    if _EXPLAIN.match(sql):
        raise TemplateLimitError("EXPLAIN depends on the version of SQLite; a key must not")


def _matches_of_query(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
    check_query(arguments[0])
    return match_query(arguments[0], file.parsed(parse_database))


def _find_table(database: OpenDatabase, name: str | None) -> tuple[str, bool]:
    tables = database.all("SELECT name FROM sqlite_master WHERE type='table' ORDER BY rowid")
    tables = [table for table in tables if not table.lower().startswith("sqlite_")]
    if name is None:
        if not tables:
            raise TemplateError("the database has no table")
        return tables[0], False
    if name in tables:
        return name, False
    views = database.all("SELECT name FROM sqlite_master WHERE type='view' ORDER BY rowid")
    for known in (*tables, *views):
        if known.lower() == name.lower():
            return known, known in views
    raise TemplateError(f"there is no table {name[:80]!r}; {nearest(name, tables + views)}")


def _find_column(database: OpenDatabase, table: str, name: str) -> str:
    columns = database.all(f"PRAGMA table_info({quote_name(table)})", 1)
    if name.isascii() and name.isdigit():
        index = to_index(name, "the column")
        if index >= len(columns):
            raise TemplateError(
                f"table {table!r} has no column {index}: it has columns 0 to {len(columns) - 1}"
            )
        return columns[index]
    for column in columns:
        if column.lower() == name.lower():
            return column
    raise TemplateError(f"table {table!r} has no column {name[:80]!r}; {nearest(name, columns)}")


def _refuse_pragma(name: str, value: str | None) -> str:
    if name in _DESCRIBE or (name in _STATE and value is None):
        return ""
    return f"PRAGMA {name} is refused: {_WRITES}"


def _check_value(arguments: Sequence[str]) -> None:
    to_index(arguments[0], "the row")


SQLITE = table_of(
    Function(
        "sqlite_query",
        1,
        1,
        sqlite_query,
        lambda arguments: check_query(arguments[0]),
        rest=True,
        matches=_matches_of_query,
    ),
    Function("sqlite_value", 2, 3, sqlite_value, _check_value),
)

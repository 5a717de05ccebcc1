"""SQLite's functions of dates, kept from the clock and the time zone.

``date('now')``, ``date()`` and kin answer otherwise each day, and ``localtime`` otherwise on each
machine, however the text that says so was put together. What they are called with is looked at
when they are called; SQLite itself then computes the answer, on a connection of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

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
        """Have the connection ask these functions instead of SQLite's own. What they answer
        follows from their arguments, so that SQLite need not ask again."""
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
            found: Value = self._plain.execute(f"SELECT {name}({places})", values).fetchone()[0]
            return found

        return compute


def refuse_call(name: str, values: tuple[Value, ...]) -> str:
    """Why a key must not ask for this; nothing where it may."""
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

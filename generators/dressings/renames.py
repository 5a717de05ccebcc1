"""Other names for input files, and for what stands in them.

The text of this module is the start of a dressed family's solver, so that it needs nothing but the
standard library.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Table = tuple[str, str, Sequence[tuple[Any, ...]]]  # its name, its CREATE statement, its rows
SQLITE = b"SQLite format 3\0"
TABLES, TEXTS = (".csv", ".sqlite"), (".fasta", ".py", ".txt")


@dataclass(frozen=True, slots=True)
class Renames:
    """New names by old ones. A path may have one ``*``, for any part of a name."""

    files: Mapping[str, str]
    columns: Mapping[str, str]  # of CSV tables; of databases, and their tables
    words: Mapping[str, str]  # whole words of texts

    def back(self) -> Renames:
        """The opposite renames."""
        names = (self.files, self.columns, self.words)
        return Renames(*({new: old for old, new in each.items()} for each in names))

    def path(self, path: str) -> str:
        """The new path of a file. A name without ``*`` goes before those with one."""
        for old, new in sorted(self.files.items(), key=lambda names: "*" in names[0]):
            if match := re.fullmatch(re.escape(old).replace(r"\*", "([^/]+)"), path):
                return new.replace("*", match[1]) if "*" in old else new
        return path

    def content(self, path: str, data: bytes, write: Callable[[Sequence[Table]], bytes]) -> bytes:
        """The new content of the file that a base family has at a path. ``write`` makes a database
        of its tables."""
        if path.endswith(".sqlite") and data.startswith(SQLITE) and self.columns:
            return write(self._tables(data))
        if path.endswith(".csv"):
            head, line_end, rest = data.partition(b"\n")
            names = head.decode("utf-8", "replace").split(",")
            return ",".join(self.columns.get(n, n) for n in names).encode() + line_end + rest
        if path.endswith(TEXTS):
            return _replaced(data.decode("utf-8", "replace"), self.words).encode()
        return data

    def _tables(self, data: bytes) -> list[Table]:
        """The tables of a database under their new names. Raises sqlite3.Error."""
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data)
            listed = database.execute("SELECT name, sql FROM sqlite_master").fetchall()
            return [
                (
                    self.columns.get(name, name),
                    _replaced(statement, self.columns),
                    database.execute(f'SELECT * FROM "{name}"').fetchall(),  # noqa: S608 - ours
                )
                for name, statement in listed
            ]


def _replaced(text: str, names: Mapping[str, str]) -> str:
    pattern = rf"\b(?:{'|'.join(map(re.escape, names))})\b"
    return re.sub(pattern, lambda match: names[match[0]], text) if names else text


def write_tables(tables: Sequence[Table]) -> bytes:
    """A database of these tables."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name, statement, rows in tables:
            database.execute(statement)
            for row in rows:
                places = ", ".join("?" * len(row))
                database.execute(f'INSERT INTO "{name}" VALUES ({places})', row)  # noqa: S608
        database.commit()
        return database.serialize()


def run_solver(renames: Renames, solver: str) -> None:
    """Run a base family's solver on the renamed files of the current folder, and leave in the
    folder whatever it writes."""
    work = Path.cwd()
    files = [path for path in work.rglob("*") if path.is_file()]
    with tempfile.TemporaryDirectory(dir=work) as folder:
        laid = {}
        for path in files:
            name = renames.path(path.relative_to(work).as_posix())
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            laid[place] = renames.content(name, path.read_bytes(), write_tables)
            place.write_bytes(laid[place])
        os.chdir(folder)
        try:
            exec(solver, {"__name__": "__main__"})  # noqa: S102 - the base family's own
        finally:
            os.chdir(work)
        for place in filter(Path.is_file, Path(folder).rglob("*")):
            if laid.get(place) != place.read_bytes():
                (work / place.name).write_bytes(place.read_bytes())

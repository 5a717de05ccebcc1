"""Rows of JSON values as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.json_values import plain_values

Row = dict[str, Any]
Body = Mapping[str, Any]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table_csv(rows: Sequence[Body]) -> str:
    """Rows of the same columns as CSV, with a header (RFC 4180, but lines end in LF). A text that
    a spreadsheet would run as a formula gets an apostrophe before it (OWASP, CSV injection)."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writerow({name: _unarmed(name) for name in rows[0]})
    writer.writerows({name: _unarmed(cell) for name, cell in row.items()} for row in rows)
    return buffer.getvalue()  # None is written empty


def flat_csv(rows: Iterable[Body]) -> str:
    """Rows of JSON values as CSV: a mapping as a column for each of its names, a pair of numbers as
    ``…_low`` and ``…_high``, a list in one cell."""
    return table_csv(_square(map(_flat, rows)))


def csv_files(tables: Mapping[str, Sequence[Body]]) -> dict[str, str]:
    """The files of some tables in ``tables/`` of a report, by path; none of a table without rows.
    Numbers are rounded as in the report's JSON."""
    return {
        f"tables/{name}.csv": flat_csv(plain_values(rows)) for name, rows in tables.items() if rows
    }


def without(row: Body, *names: str) -> Row:
    """The row without some columns."""
    return {name: value for name, value in row.items() if name not in names}


def inner_rows(rows: Iterable[Body], inner: str, *names: str) -> list[Row]:
    """The rows that each row has under ``inner``, after the values of some names."""
    return [
        {name: row[name] for name in names} | inner_row for row in rows for inner_row in row[inner]
    ]


def _unarmed(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", "\n")  # csv leaves a return unquoted where lines end in LF
    return f"'{text}" if cell.startswith(_FORMULA) else text


def _flat(row: Body, before: str = "") -> Row:
    flat: Row = {}
    for key, value in row.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{name}_")
        elif _is_pair(value):
            flat |= {f"{name}_low": value[0], f"{name}_high": value[1]}
        elif isinstance(value, list | tuple):
            flat[name] = "; ".join(map(str, value))
        else:
            flat[name] = value
    return flat


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(item, float) for item in value)
    )


def _square(rows: Iterable[Row]) -> Sequence[Row]:
    """The rows with the columns of all of them: a null where another row has a pair or a mapping
    leaves those columns empty."""
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    whole = [
        name
        for name in names
        if not any(other.startswith(f"{name}_") for other in names)
        or any(row.get(name) is not None for row in listed)
    ]
    return [{name: row.get(name) for name in whole} for row in listed]

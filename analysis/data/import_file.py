"""Results from elsewhere: a CSV or Parquet file as a Table (docs/result-rows.md).

Required are ``model``, ``arm``, ``stratum``, ``instance`` and ``score``; other columns of an
episode are optional. Errors name the file and a row, counted from 1 after the header.
"""

from __future__ import annotations

import codecs
import gzip
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from analysis.data.item_dates import CUTOFF, DAYS, ITEM_DATE, ItemDates, read_item_dates
from analysis.data.table import SCHEMA, ResultTable, arrow_schema, table_of_columns, table_of_frame
from analysis.errors import AnalysisError
from registry.result_row import GRADER, Arm, Status

REQUIRED = ("model", "arm", "stratum", "instance", "score")
RENAMED: Mapping[str, str] = {"look": "wave"}  # common name: name in the table
DATE, UNIT, PAIR, ALLOCATION = "date", "unit", "pair", "allocation"
_BESIDE = (DATE, UNIT, PAIR, ALLOCATION, *DAYS)  # no parts of the table
_DERIVED = ("family", "difficulty", "status")  # from other columns, where they are not given
_ZEROS: Mapping[str, Any] = {"int64": 0, "float64": 0.0, "string": ""}
_DEFAULTS: Mapping[str, Any] = {
    name: _ZEROS[kind]
    for name, kind in SCHEMA.items()
    if kind in _ZEROS and name not in (*REQUIRED, *_DERIVED)
} | {"grader": GRADER, "attempts": 1}
_WANTED: Mapping[str, str] = {"int64": "whole numbers", "float64": "numbers", "string": "texts"}
_OF_INSTANCE = ("wave", "instance", "arm", "stratum", "family", "difficulty", "tranche")
MAX_BYTES = 4_000_000_000
_MOST_HEADER = 1 << 20
_SHORT_NAME = 4
_WORDS_OF_THEIR_OWN = ("grade", "graded", "second", "turn", "attempt", "stats")
_CONTROLS = r"[\p{Cc}\x{2028}\x{2029}\x{202A}-\x{202E}\x{2066}-\x{2069}]"


@dataclass(frozen=True, slots=True, eq=False)
class GradedFile:
    """A file's rows of the grader that the plan tests, called ``scored_by`` in the file, and of the
    second one. ``days`` (datetime64[D]) has the date of each row; None without that column.
    ``by_unit``: the instances are those of the column ``unit``. ``allocation`` has the names in
    that column. ``item_dates``: those of instances and models; if they state no arms, that column
    of the table holds none."""

    table: ResultTable
    scored_by: str
    days: NDArray[np.datetime64] | None
    by_unit: bool = False
    allocation: frozenset[str] = frozenset()
    item_dates: ItemDates | None = None


def read_result_file(path: Path, *, grader: str | None = None, second: str = "") -> ResultTable:
    """The table of a CSV (``.csv``, ``.csv.gz``) or Parquet file.

    An empty score is a missing run, unless ``status`` differs; so is an absent row. With a column
    ``unit``, the rows of a unit are runs on one instance. One grader's rows are read, as those that
    the plan tests, and those of ``second`` beside them: ``grader`` names the first if the file has
    several others. Raises AnalysisError for a file that cannot be read, a
    lacking or unknown column, several graders without a choice, control characters in a name, and
    what ``check_table`` refuses.
    """
    read = read_graded_file(path, grader=grader, second=second)
    if read.item_dates is not None and not read.item_dates.stated:
        raise AnalysisError(f"{path}: no column arm")
    return read.table


def read_graded_file(path: Path, *, grader: str | None = None, second: str = "") -> GradedFile:
    """Return the same with the file's name for the grader of the tested scores, and the dates."""
    return graded_columns(read_columns(path), path, grader=grader, second=second)


def graded_columns(
    arrow: Any, path: Path, *, grader: str | None = None, second: str = ""
) -> GradedFile:
    """Return the same of a file's columns."""
    import pandas as pd

    arrow = _rename(arrow, path)
    stated, have = "arm" in arrow.column_names, arrow.column_names
    if not stated and {ITEM_DATE, CUTOFF} <= {*have}:
        arrow = arrow.append_column("arm", [[str(Arm.PRIVATE)] * arrow.num_rows])
        have = arrow.column_names
    lacking = [name for name in (*REQUIRED, *[UNIT] * (PAIR in have)) if name not in have]
    if lacking:
        need = ", ".join(REQUIRED)
        need += " (or item_date and cutoff)" * (lacking == ["arm"])
        need += f", and {UNIT} beside {PAIR}" * (UNIT in lacking)
        raise AnalysisError(
            f"{path}: no column {', '.join(lacking)}; at the least {need} are needed "
            "(`dosimeter analyze --help`)"
        )
    if not arrow.num_rows:
        raise AnalysisError(f"{path}: no rows below the header")
    arrow, tested = _one_grader(arrow, path, grader, second)
    refuse_controls(arrow, path)
    table = table_of_columns({n: _column(arrow, n, path) for n in SCHEMA}, str(path))
    for shown, name in (("look", "wave"), ("replicate", "replicate")):
        if (below := table[name] < 0).any():
            raise AnalysisError(f"{path}: row {int(below.argmax()) + 1}: {shown} lies below 0")
    texts = {
        name: arrow[name].cast("string").fill_null("")
        for name in {UNIT, PAIR, ALLOCATION} & {*have}
    }
    given = {name: column.to_pylist() for name, column in texts.items()}
    days, unit = _days(arrow, path), given.get(UNIT, table["instance"])
    dated = {name: _days(arrow, path, name) for name in DAYS if name in have}
    named = pd.DataFrame({"model": table["model"], "instance": unit, **dated})
    dates = read_item_dates(named, path, stated=stated)
    columns = {**table.columns, UNIT: unit, DATE: days}
    if UNIT in given:
        units = pd.Series(unit)
        several = units.groupby(table["instance"]).transform("nunique") > 1
        if (odd := several | (units == "") | (pd.Series(given.get(PAIR, unit)) == "")).any():
            what = f"every row names a unit{' and a pair' * (PAIR in given)}"
            what += ", and an instance is of one unit in all rows"
            raise AnalysisError(f"{path}: row {int(odd.argmax()) + 1}: {what}")
    if PAIR in given:
        columns["stratum"] = _pairs(given[PAIR], unit, table, path)
    frame, place = owe_absent(pd.DataFrame(columns)), str(path)
    if UNIT in given:
        runs = frame.groupby(["wave", "model", "grader", UNIT], sort=False).cumcount()
        frame, place = frame.assign(instance=frame[UNIT], replicate=runs), f"{path}, by unit"
    days = None if days is None else frame[DATE].to_numpy("datetime64[D]")
    allocation = frozenset(given.get(ALLOCATION, ()))
    table = table_of_frame(frame, place)
    return GradedFile(table, tested, days, UNIT in given, allocation, item_dates=dates)


def _pairs(pair: Sequence[str], unit: Sequence[str], table: ResultTable, path: Path) -> Any:
    """The pair of each row, in place of its stratum. Raises AnalysisError for one that has not one
    published and one sealed unit."""
    import pandas as pd

    rows = pd.DataFrame({PAIR: pair, UNIT: unit, "arm": table["arm"]})
    for name, own in rows.drop_duplicates().groupby(PAIR):
        if sorted(own["arm"]) != sorted(Arm):
            has = ", ".join(f"{u} ({arm})" for u, arm in zip(own[UNIT], own["arm"], strict=True))
            raise AnalysisError(
                f"{path}: pair {name!r}: takes one public and one private unit, and has {has}"
            )
    return rows[PAIR].to_numpy(object)


def owe_absent(rows: Any) -> Any:
    """The rows of a data frame, then a missing run for each that is absent: a model of a look owes
    every instance of its tranches that any model of the look has, as many times as it most often
    ran those of the arm and stratum."""
    import pandas as pd

    cell, at = ["wave", "model", "instance"], rows[rows["grader"] == GRADER]
    models = at.drop_duplicates(["wave", "model", "tranche"])[["wave", "model", "tranche", DATE]]
    instances = at.drop_duplicates(["wave", "instance"])[[*_OF_INSTANCE, UNIT]]
    had = at.groupby(cell, sort=False).size().rename("had").reset_index()
    owed = instances.merge(models, on=["wave", "tranche"]).merge(had, on=cell, how="left")
    blocks = owed.groupby(["wave", "model", "stratum", "arm"], sort=False)["had"]
    usual = blocks.transform(lambda runs: runs.mode().min()).fillna(1)
    lacking = (usual - owed["had"].fillna(0)).clip(lower=0).astype(int)
    absent = owed.loc[owed.index.repeat(lacking)].drop(columns="had")
    runs = rows["replicate"].max() + 1 + absent.groupby(cell).cumcount()
    texts = {"status": str(Status.MISSING), "grader": GRADER, "error_class": "absent row"}
    joined = pd.concat([rows, absent.assign(replicate=runs, **texts)], ignore_index=True)
    return joined.fillna({n: _ZEROS[kind] for n, kind in SCHEMA.items() if kind in _ZEROS})


def read_columns(path: Path) -> Any:
    """The columns of a file as Arrow has them. Raises AnalysisError where it cannot be read."""
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    try:
        if path.stat().st_size > MAX_BYTES:
            raise AnalysisError(f"{path}: more than {MAX_BYTES:,} bytes")
        if path.suffix == ".parquet":
            return pq.read_table(path)
        if not path.name.endswith((".csv", ".csv.gz")):
            raise AnalysisError(f"{path}: a table is a .csv, .csv.gz or .parquet file")
        _check_form(path)
        texts = {name: pa.string() for name, kind in SCHEMA.items() if kind == "string"}
        options = csv.ConvertOptions(
            column_types=texts,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            true_values=[],
            false_values=[],
        )
        return csv.read_csv(path, convert_options=options)
    except FileNotFoundError:
        raise AnalysisError(f"{path}: no such file") from None
    except (OSError, pa.ArrowException) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "CSV"
        reason = str(error).splitlines()[0]
        if "straddl" in reason:
            reason = "a row has more than a megabyte"
        raise AnalysisError(f"{path}: not a readable {kind} file ({reason})") from error


def _check_form(path: Path) -> None:
    """Raise AnalysisError for what spreadsheets write in place of UTF-8 with commas; OSError."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        header = file.readline(_MOST_HEADER)
    if len(header) == _MOST_HEADER:
        raise AnalysisError(f"{path}: its header has more than {_MOST_HEADER:,} bytes")
    for sign, name in ((b"<", "HTML"), (b"{", "JSON"), (b"[", "JSON")):
        if header.removeprefix(codecs.BOM_UTF8).lstrip().startswith(sign):
            raise AnalysisError(f"{path}: is {name}; write it as CSV")
    if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in header:
        raise AnalysisError(f"{path}: is UTF-16; write it as UTF-8")
    for sign, name in ((b";", "';'"), (b"\t", "tabs"), (b"|", "'|'")):
        if sign in header and b"," not in header:
            raise AnalysisError(
                f"{path}: is separated by {name}; write it with commas, and numbers with points"
            )


def _rename(arrow: Any, path: Path) -> Any:
    """Columns by our names. Others are ignored, but for one that may be an absent one misspelt."""
    names = [RENAMED.get(name, name) for name in arrow.column_names]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise AnalysisError(f"{path}: the column {repeated[0]!r} is there twice")
    known = [name for name in names if name in SCHEMA or name in _BESIDE]
    absent = {*SCHEMA, *_BESIDE} - {*known}
    absent |= {given for given, name in RENAMED.items() if name in absent}
    for given in (name for name in names if name not in known):
        near = [name for name in sorted(absent) if _is_near(given, name)]
        if near and not any(_is_near(given, name) for name in known):
            raise AnalysisError(f"{path}: unknown column {given!r}; is {near[0]!r} meant?")
    return arrow.rename_columns(names).select(known)


def _is_near(given: str, name: str) -> bool:
    """True for a name that is spelt otherwise by case or punctuation, or by one letter: added, left
    out, changed, or swapped with the next. Names of four letters are one letter from many words:
    of these, for swapped letters and the plural only."""
    one, other = ("".join(filter(str.isalnum, text.casefold())) for text in (given, name))
    if one in _WORDS_OF_THEIR_OWN:
        return False
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    same = min(same, len(other))
    left, right = one[same:], other[same:]
    swapped = left[:2] == right[:2][::-1] and left[2:] == right[2:]
    if len(other) <= _SHORT_NAME:
        return swapped or one == f"{other}s"
    return swapped or left[1:] == right or left == right[1:] or left[1:] == right[1:]


def _one_grader(arrow: Any, path: Path, wanted: str | None, second: str) -> tuple[Any, str]:
    """The rows of one grader, called as the plan calls the one that it tests, and of a second; and
    the file's name for the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "grader" not in arrow.column_names:
        if wanted is not None or second:
            raise AnalysisError(
                f"{path}: no column grader, of which {wanted or second!r} could be one"
            )
        return arrow, GRADER
    column = _cast(arrow["grader"], "grader", pa.string(), path)
    graders = sorted(str(name) for name in pc.unique(column).to_pylist() if name is not None)
    if second and (second not in graders or second == wanted):
        other_graders = ", ".join(name for name in graders if name != wanted) or "no others"
        raise AnalysisError(
            f"{path}: no rows by the second grader {second!r}; there are {other_graders}"
        )
    if wanted is None:
        wanted = _only_grader([name for name in graders if name != second], path)
        if graders and column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise AnalysisError(
                f"{path}: row {row} names no grader, others do: choose one with --grader"
            )
        if wanted is None:
            return arrow.drop_columns(["grader"]), GRADER
    elif wanted not in graders:
        raise AnalysisError(f"{path}: no rows by grader {wanted!r}; there are {', '.join(graders)}")
    place = arrow.column_names.index("grader")
    arrow = arrow.set_column(place, "grader", column)
    arrow = arrow.filter(pc.is_in(column, pa.array([wanted, second or wanted])))
    named = pc.if_else(pc.equal(arrow["grader"], wanted), GRADER, arrow["grader"])
    return arrow.set_column(place, "grader", named), wanted


def _only_grader(graders: Sequence[str], path: Path) -> str | None:
    if len(graders) > 1:
        raise AnalysisError(
            f"{path}: rows by {len(graders)} graders ({', '.join(graders[:8])}): scores of two "
            "graders are no runs of one model; choose one with --grader"
        )
    return graders[0] if graders else None


def refuse_controls(arrow: Any, path: Path) -> None:
    """Names go to terminals and pages: no escape sequence, no line break, no turned text. No two
    differ by what a reader cannot see."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in arrow.column_names:
        if SCHEMA.get(name) != "string":
            continue
        column = _cast(arrow[name], name, pa.string(), path)
        distinct = pc.unique(column)
        bad = distinct.filter(pc.match_substring_regex(distinct, _CONTROLS))
        if len(bad):
            row = pc.index(column, bad[0]).as_py() + 1
            raise AnalysisError(f"{path}: row {row}: {name} holds a control character")
        spelt: dict[str, str] = {}
        for text in filter(None, distinct.to_pylist()):
            seen = "".join(c for c in text if category(c) != "Cf")  # of no width
            if (other := spelt.setdefault(normalize("NFC", " ".join(seen.split())), text)) != text:
                raise AnalysisError(
                    f"{path}: {name}: {other!a} and {text!a} differ by blanks or the form "
                    "of their letters only: write one of them"
                )


def _column(arrow: Any, name: str, path: Path) -> Any:
    """A column as the table holds it: given, or its default, or worked out from others."""
    kind = arrow_schema().field(name).type
    if name not in arrow.column_names:
        return _default(arrow, name, kind)
    cast = _cast(arrow[name], name, kind, path)
    if name == "status":
        return cast.fill_null(_default(arrow, name, kind))
    return cast.fill_null(_DEFAULTS[name]) if name in _DEFAULTS else cast


def _cast(column: Any, name: str, kind: Any, path: Path) -> Any:
    import pyarrow as pa

    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        shown = next((given for given, column_name in RENAMED.items() if column_name == name), name)
        wanted = _WANTED[SCHEMA[name].rstrip("?")]
        if row := _first_unlike(column, kind):
            raise AnalysisError(f"{path}: row {row}: {shown}: {wanted} are wanted") from error
        raise AnalysisError(
            f"{path}: column {shown} has type {column.type}; {wanted} are wanted "
            f"({str(error).splitlines()[0]})"
        ) from error


def _days(arrow: Any, path: Path, name: str = DATE) -> NDArray[np.datetime64] | None:
    """The days of the rows in a column. Raises AnalysisError for a row without one, or with another
    form."""
    import pyarrow as pa

    if name not in arrow.column_names:
        return None
    column = arrow[name]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.date32(), safe=False)
    if pa.types.is_null(column.type) or column.null_count:
        row = column.is_null().to_numpy().argmax() + 1
        raise AnalysisError(f"{path}: row {row} has no {name}: give every row one, or leave it out")
    try:
        return np.asarray(column.cast(pa.date32()).to_numpy()).astype("datetime64[D]")
    except pa.ArrowException as error:
        row = _first_unlike(column, pa.date32()) or 1
        raise AnalysisError(
            f"{path}: row {row}: {name}: a day such as 2026-06-01 is wanted"
        ) from error


def _first_unlike(column: Any, kind: Any) -> int:
    """The first row of a column of single values that does not turn into ``kind``; 0 where the
    column is of another sort."""
    import pyarrow as pa

    plain = pa.types.is_string(column.type) or pa.types.is_floating(column.type)
    if not plain:
        return 0

    def fails(rows: int) -> bool:
        try:
            column.slice(0, rows).cast(kind)
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(len(column)), True, key=fails)


def _default(arrow: Any, name: str, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "status":
        scored = pc.is_valid(arrow["score"])
        return pc.if_else(scored, str(Status.SCORED), str(Status.MISSING))
    if name == "family":
        parts = pc.split_pattern(arrow["stratum"].cast(pa.string()), "/", max_splits=1)
        return pc.list_element(parts, 0)
    value = "" if name == "difficulty" else _DEFAULTS.get(name)  # null where that may be
    return pa.chunked_array([pa.repeat(pa.scalar(value, kind), arrow.num_rows)])

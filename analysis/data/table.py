"""Result rows to a frozen columnar table, in memory and as Parquet.

Errors name row numbers, never an instance or a grade: rows of the private arm pass through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.permutation import Bools, Ints
from registry.files import write_whole
from registry.ledger.records import Plan
from registry.result_row import COLUMNS, Arm, ResultRow, Status, columns_of

_KINDS = {int: "int64", float: "float64"}  # of any other type: string


def _kind(hint: Any) -> str:
    """The Arrow type of a column by its annotation; ``?`` marks one that may be null."""
    types = get_args(hint) or (hint,)
    return _KINDS.get(types[0], "string") + ("?" if NoneType in types else "")


_HINTS = get_type_hints(ResultRow)
SCHEMA: Mapping[str, str] = MappingProxyType({name: _kind(_HINTS[name]) for name in COLUMNS})

LEAST_IN_ARM = 5  # instances of a stratum that has weight
MOST_LIGHT = 0.25  # of the instances, in strata without
MOST_TRANCHES = 1_000_000  # codes of stratum and tranche together stay whole numbers

_KEY = ("wave", "model", "instance", "replicate", "grader")
_UNIT = (
    *("score", "score_sr", "score_dh", "score_im", "score_if", "score_key", "score_static"),
    *("key_fraction", "gate_free"),
)
_OPTIONAL = {f.name: f.default for f in fields(ResultRow) if f.default is not MISSING}


@dataclass(frozen=True, slots=True, eq=False)
class ResultTable:
    """Validated result rows by column, read-only. Text is stored as objects, whole numbers as
    int64; columns that may be null are float64 with NaN for null."""

    columns: Mapping[str, NDArray[Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        return _frozen, (dict(self.columns),)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["wave"])

    def where(self, mask: Bools) -> ResultTable:
        """The rows that the mask picks."""
        if mask.all():
            return self
        return _frozen({name: column[mask] for name, column in self.columns.items()})


def make_table(rows: Iterable[ResultRow]) -> ResultTable:
    """The table of some rows. Raises AnalysisError for rows that ``check_table`` refuses."""
    return table_of_columns(_arrow_table(rows, "rows"), "rows")


def read_table(path: Path) -> ResultTable:
    """The table of a Parquet file. A column that ResultRow has a default for may be absent. Raises
    AnalysisError where it cannot be read, lacks another column, or ``check_table`` refuses it.
    Columns beyond the contract are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise AnalysisError(f"{path}: not a readable Parquet file ({error})") from error
    lacking = [name for name in COLUMNS if name not in arrow.column_names]
    if needed := [name for name in lacking if name not in _OPTIONAL]:
        raise AnalysisError(f"{path}: no column {', '.join(needed)}; needed: {', '.join(COLUMNS)}")
    for name in lacking:
        kind = arrow_schema().field(name)
        values = pa.repeat(pa.scalar(_OPTIONAL[name], kind.type), arrow.num_rows)
        arrow = arrow.append_column(kind, values)
    for wanted in arrow_schema():
        stored = arrow.schema.field(wanted.name).type
        if stored != wanted.type:
            raise AnalysisError(
                f"{path}: column {wanted.name} has type {stored}; {wanted.type} is wanted"
            )
    return table_of_columns(arrow, str(path))


def table_of_columns(columns: Any, place: str) -> ResultTable:
    """The table of Arrow columns, by the names in COLUMNS. Raises AnalysisError for what
    ``check_table`` refuses; ``place`` names where they are from."""
    return check_table(_frozen({n: _array(columns[n], n, place) for n in COLUMNS}), place)


def table_of_frame(frame: Any, place: str) -> ResultTable:
    """The table of a pandas data frame. Raises AnalysisError for what ``check_table`` refuses."""
    kinds = {n: {"string": object, "int64": "int64"}.get(kind, float) for n, kind in SCHEMA.items()}
    columns = {name: frame[name].to_numpy(kind, copy=True) for name, kind in kinds.items()}
    return check_table(_frozen(columns), place)


def weigh_strata(plan: Plan, table: ResultTable) -> Plan:
    """The plan without the strata that have fewer than ``LEAST_IN_ARM`` instances in an arm; with
    all of them if those hold more than ``MOST_LIGHT`` of the instances."""
    first = np.unique(codes_of(table["instance"])[1], return_index=True)[1]
    counts = Counter(zip(table["stratum"][first], table["arm"][first], strict=True))
    sizes = {name: [counts[name, arm] for arm in Arm] for name in plan.strata}
    light = [name for name, arms in sizes.items() if 0 < min(arms) < LEAST_IN_ARM]
    if sum(sum(sizes[name]) for name in light) > MOST_LIGHT * sum(map(sum, sizes.values())):
        return plan
    return without_strata(plan, light)


def without_strata(plan: Plan, strata: Collection[str]) -> Plan:
    """The plan on its other strata, as where some have one arm only."""
    kept = {n: k for n, k in zip(plan.strata, plan.sizes, strict=True) if n not in strata}
    given = plan.seeds_per_arm
    seeds = given if isinstance(given, int) else tuple(kept.values())
    return replace(plan, strata=tuple(kept), seeds_per_arm=seeds)


def write_table(path: Path, rows: Iterable[ResultRow]) -> None:
    """Write rows as Parquet under SCHEMA, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = _arrow_table(rows, str(path))
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


def read_rows(table: ResultTable) -> list[ResultRow]:
    """The table as rows again, in its order."""
    columns = [_values(table[name], SCHEMA[name]) for name in COLUMNS]
    made = (dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    return [ResultRow(**(r | {"arm": Arm(r["arm"]), "status": Status(r["status"])})) for r in made]


def check_table(table: ResultTable, place: str) -> ResultTable:
    """The table itself, if it keeps the contract of ResultRow. Raises AnalysisError for an
    unknown arm or status, a score that is outside 0…1 or does not go with its status, a repeated
    (wave, model, instance, replicate, grader), or an instance in two arms or strata."""
    import pandas as pd

    refuse(place, ~one_of(table["arm"], Arm), "arm must be 'public' or 'private'")
    known = ", ".join(Status)
    refuse(place, ~one_of(table["status"], Status), f"status must be one of {known}")
    for name in _UNIT:
        outside = (table[name] < 0) | (table[name] > 1)  # false for null
        refuse(place, outside, f"{name} lies outside 0…1")
    _check_status(table, place)
    _check_counts(table, place)
    repeats = pd.DataFrame({name: table[name] for name in _KEY}).duplicated()
    refuse(place, repeats.to_numpy(), f"repeats another row's {', '.join(_KEY)}")
    for name in ("arm", "stratum"):
        straddles = _straddles(table["instance"], table[name])
        refuse(place, straddles, f"its instance has another {name} in an earlier row")
    _check_burned(table, place)
    return table


def _check_burned(table: ResultTable, place: str) -> None:
    burned, tranche = table["burned"], table["tranche"]
    refuse(place, (burned != 0) & (burned != 1), "burned must be 0 or 1")
    public = (burned == 1) & (table["arm"] == Arm.PUBLIC)
    refuse(place, public, "a public instance is no burned one: it is public from the start")
    refuse(place, tranche < 0, "tranche lies below 0")
    refuse(place, tranche > MOST_TRANCHES, f"tranche lies above {MOST_TRANCHES}")
    if tranche.any():
        straddles = _straddles(table["instance"], tranche)
        refuse(place, straddles, "its instance has another tranche in an earlier row")


def one_of(values: NDArray[Any], names: Iterable[Any]) -> Bools:
    """True for each value that is among the names. Texts are hashed: sorting takes seconds."""
    import pandas as pd

    series = pd.Series(values, dtype=values.dtype, copy=False)  # objects as they are, not as texts
    return np.asarray(series.isin([*names]).to_numpy(), dtype=bool)


def names_in(values: Iterable[str]) -> set[str]:
    """The distinct names in texts that each join several by ", ", as ``served_version`` does."""
    return {name for text in set(values) for name in text.split(", ")} - {""}


def codes_of(values: NDArray[Any]) -> tuple[list[Any], Ints]:
    """The distinct values in order, and for each value its place among them."""
    if values.dtype != object:
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct.tolist(), codes.reshape(-1).astype(np.int64)
    import pandas as pd

    codes, distinct = pd.factorize(values, sort=True)  # sorting a million texts takes a minute
    return distinct.tolist(), codes.astype(np.int64)


def _check_status(table: ResultTable, place: str) -> None:
    score, status = table["score"], table["status"]
    none = np.isnan(score)
    refuse(place, (status == Status.SCORED) & none, "status 'scored' needs a score")
    refuse(place, (status == Status.MISSING) & ~none, "status 'missing' stands without a score")
    failed = (status == Status.MODEL_FAILURE) & ~none & (score != 0)
    refuse(place, failed, "status 'model_failure' scores 0")


def _check_counts(table: ResultTable, place: str) -> None:
    passed, total = table["passed"], table["total"]
    refuse(place, np.isnan(passed) != np.isnan(total), "passed and total go together")
    refuse(place, (total <= 0) | (passed < 0) | (passed > total), "passed must lie in 0…total")


def refuse(place: str | Path, bad: Any, why: str) -> None:
    """Raise AnalysisError for the first of the bad rows, if there are any."""
    if bad.any():
        more = "" if bad.sum() == 1 else f" (and {int(bad.sum()) - 1} more)"
        raise AnalysisError(f"{place}: row {int(np.argmax(bad)) + 1}{more}: {why}")


def _straddles(instance: NDArray[Any], other: NDArray[Any]) -> Bools:
    """True for each row that gives its instance another value than its first row does."""
    _, codes = codes_of(instance)
    _, values = codes_of(other)
    first = np.unique(codes, return_index=True)[1]
    straddles: Bools = values != values[first[codes]]
    return straddles


def _array(column: Any, name: str, place: str) -> NDArray[Any]:
    """A column in numpy. A null is honest where it may stand; a NaN or an infinity never is."""
    null = np.asarray(column.is_null().to_numpy(), dtype=bool)
    if not SCHEMA[name].endswith("?"):
        refuse(place, null, f"{name} is null")
    if SCHEMA[name] == "string":
        return np.asarray(column.to_numpy(), dtype=object)
    numbers: NDArray[Any] = column.to_numpy()  # null becomes NaN
    refuse(place, ~np.isfinite(numbers) & ~null, f"{name} is not a finite number")
    kind = np.float64 if SCHEMA[name].endswith("?") else SCHEMA[name]
    return numbers.astype(kind)  # a copy of our own


def _values(column: NDArray[Any], kind: str) -> list[Any]:
    if not kind.endswith("?"):
        return list(column.tolist())
    whole = int if kind.startswith("int") else float
    return [None if np.isnan(v) else whole(v) for v in column.tolist()]


def _frozen(columns: dict[str, NDArray[Any]]) -> ResultTable:
    for column in columns.values():
        column.setflags(write=False)
    return ResultTable(MappingProxyType(columns))


def _arrow_table(rows: Iterable[ResultRow], place: str) -> Any:
    import pyarrow as pa

    columns = columns_of(rows)
    try:
        return pa.table({n: columns[n] for n in COLUMNS}, schema=arrow_schema())
    except pa.ArrowException as error:
        raise AnalysisError(f"{place}: a value has the wrong type ({error})") from error


def arrow_schema() -> Any:
    """SCHEMA as Arrow has it."""
    import pyarrow as pa

    kinds = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string()}
    return pa.schema(
        [pa.field(n, kinds[k.rstrip("?")], nullable=k.endswith("?")) for n, k in SCHEMA.items()]
    )

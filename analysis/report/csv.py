"""Every number of a report as plain tables: what ``report.json`` holds, a CSV a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from analysis.picard import table_csv

Body = Mapping[str, Any]
Row = dict[str, Any]

# Tables that are lists of rows in the body, by the name of their file.
_LISTS = {
    "verdicts": "models",
    "exploratory": "exploratory",
    "scores": "scores",
    "dimensions": "dimensions",
    "episodes": "episodes",
    "causes": "causes",
    "effort": "effort",
    "costs": "costs",
    "controls": "controls",
    "sensitivity": "sensitivity",
    "served": "served",
    "exposure": "exposure",
    "burned": "burned",
    "texts": "texts",
    "models": "facts",
    "runs": "runs",
}


def tables_csv(body: Body) -> dict[str, str]:
    """The tables of a body as ``report_json`` makes it, as CSV by file name; none without rows.

    Pairs are two columns, ``…_low`` and ``…_high``; what is not known is empty.
    """
    tables = {name: list(body[key]) for name, key in _LISTS.items()}
    tables |= {
        "looks": list(_looks(body)),
        "tests": list(_tests(body)),
        "outcomes": list(_outcomes(body)),
        "monitoring": list(_monitored(body)),
        "onset": list(_onset(body)),
        "judges": [_without(judge, "gaps", "drift") for judge in body["judges"]],
        "judge_gaps": [
            {"judge": judge["judge"], **gap} for judge in body["judges"] for gap in judge["gaps"]
        ],
        "judge_drift": [
            {"judge": judge["judge"], **row} for judge in body["judges"] for row in judge["drift"]
        ],
        "deviations": [{"deviation": line} for line in body["deviations"]],
        "changes": list(_changes(body)),
        "calibration": [_without(calibration, "doses") for calibration in body["calibration"]],
        "calibration_doses": [
            {"how": calibration["how"], **dose}
            for calibration in body["calibration"]
            for dose in calibration["doses"]
        ],
    }
    for name in ("models", "by_tool", "by_task"):
        tables[f"tools_{name}"] = list(body["tools"][name]) if body["tools"] else []
    return {
        f"{name}.csv": table_csv(_square(map(_flat, rows))) for name, rows in tables.items() if rows
    }


def _looks(body: Body) -> Iterator[Row]:
    for look in body["looks"]:
        excluded = [
            f"{excluded_model['model']}: {excluded_model['why']}"
            for excluded_model in look["excluded"]
        ]
        yield {**_without(look, "models"), "excluded": excluded}


def _tests(body: Body) -> Iterator[Row]:
    for look in body["looks"]:
        for model in look["models"]:
            yield {"look": look["number"], **_without(model, "outcomes")}


def _outcomes(body: Body) -> Iterator[Row]:
    for look in body["looks"]:
        for model in look["models"]:
            for outcome in model["outcomes"]:
                yield {"wave": model["wave"], "model": model["model"], **outcome}


def _monitored(body: Body) -> Iterator[Row]:
    if body["monitoring"] is not None:
        yield from body["monitoring"]["looks"]


def _onset(body: Body) -> Iterator[Row]:
    onset = None if body["monitoring"] is None else body["monitoring"]["onset"]
    if onset is not None:
        for wave, value in onset["values"]:
            yield {"wave": wave, "e": value, "bound": 1 / onset["alpha"]}


def _changes(body: Body) -> Iterator[Row]:
    changes = body["changes"]
    if changes is None:
        return
    for turned in changes["turned"]:
        yield {"change": "verdict", **turned}
    for model, wave, word in changes["added"]:
        yield {"change": "new", "model": model, "wave": wave, "now": word}
    for kind, lines in (("deviation", changes["deviations"]), ("settled", changes["settled"])):
        for line in lines:
            yield {"change": kind, "note": line}


def _without(row: Body, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _flat(row: Body, before: str = "") -> Row:
    """One level of columns: mappings by their names, pairs of numbers by their ends, lists in
    one cell."""
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

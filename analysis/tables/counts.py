"""Results from elsewhere as counts: right answers of each model in each arm and stratum, or means
and standard deviations of their scores, without the instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.data.import_file import GradedFile, graded_columns, read_columns, refuse_controls
from analysis.errors import AnalysisError
from analysis.stats.permutation import Floats
from registry.result_row import Arm

NAMED = ("model", "arm", "stratum")
_FORMS = (("k", "n"), ("mean", "sd", "n"))  # of a row, beside what is named
_ALLOCATION = "allocation"
_MOST = 1e12  # instances


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores by model, stratum and arm, the public one first: arrays (M, S, 2). ``n`` instances
    have a ``mean`` and the unbiased ``variance`` of one score; ``shares`` says that scores are 0 or
    1. ``allocation`` has the names in that column, "" for a blank."""

    models: tuple[str, ...]
    strata: tuple[str, ...]
    n: Floats
    mean: Floats
    variance: Floats
    shares: bool
    allocation: frozenset[str]


def read_either(path: Path, *, grader: str | None = None, second: str = "") -> GradedFile | Counts:
    """What ``read_graded_file`` reads, or the counts of a file that has no instances."""
    arrow = read_columns(path)
    names = {*arrow.column_names}
    if "instance" in names or "n" not in names or not names & {"k", "mean"}:
        return graded_columns(arrow, path, grader=grader, second=second)
    return _read_counts(arrow, path)


def _read_counts(arrow: Any, path: Path) -> Counts:
    form = _FORMS[0] if "k" in arrow.column_names else _FORMS[1]
    wanted = (*NAMED, *form)
    if lacking := [name for name in wanted if arrow.column_names.count(name) != 1]:
        raise AnalysisError(
            f"{path}: a table of counts has each of the columns {', '.join(wanted)} once; "
            f"{', '.join(lacking)} is not"
        )
    kept = [name for name in arrow.column_names if name in (*wanted, _ALLOCATION)]
    refuse_controls(arrow.select(kept), path)
    rows = arrow.select(kept).to_pylist()
    if not rows:
        raise AnalysisError(f"{path}: no rows below the header")
    cells: dict[tuple[str, str, str], tuple[float, float, float]] = {}
    for number, row in enumerate(rows, 1):
        place = f"{path}: row {number}"
        model, arm, stratum = (_text(row, name, place) for name in NAMED)
        if arm not in {*Arm}:
            raise AnalysisError(f"{place}: arm must be 'public' or 'private'")
        if (key := (model, arm, stratum)) in cells:
            raise AnalysisError(f"{place}: repeats another row's {', '.join(NAMED)}")
        cells[key] = (_of_count if "k" in form else _of_mean)(row, place)
    allocation = {str(row[_ALLOCATION] or "") for row in rows if _ALLOCATION in row}
    return _counts_of(path, cells, "k" in form, frozenset(allocation))


def _counts_of(
    path: Path,
    cells: Mapping[tuple[str, str, str], tuple[float, float, float]],
    shares: bool,
    allocation: frozenset[str],
) -> Counts:
    models, strata = ({key[at]: None for key in cells} for at in (0, 2))
    values = np.zeros((len(models), len(strata), 2, 3))
    for m, model in enumerate(models):
        for s, stratum in enumerate(strata):
            for a, arm in enumerate((Arm.PUBLIC, Arm.PRIVATE)):
                if (model, arm, stratum) not in cells:
                    raise AnalysisError(
                        f"{path}: {model} has no {arm} row of {stratum}: give each model both arms "
                        "of every stratum, or a table of its own"
                    )
                values[m, s, a] = cells[model, arm, stratum]
    n, mean, variance = np.moveaxis(values, -1, 0)
    return Counts(
        models=tuple(models),
        strata=tuple(strata),
        n=n,
        mean=mean,
        variance=variance,
        shares=shares,
        allocation=allocation,
    )


def _of_count(row: Mapping[str, Any], place: str) -> tuple[float, float, float]:
    n = _size(row, place)
    k = _number(row, "k", place, n, f"a whole number from 0 to {n:.0f}")
    if k != int(k):
        raise AnalysisError(f"{place}: k: a whole number from 0 to {n:.0f} is wanted")
    return n, k / n, k / n * (1 - k / n) * n / (n - 1)


def _of_mean(row: Mapping[str, Any], place: str) -> tuple[float, float, float]:
    mean, sd = (_number(row, name, place, 1, "a number from 0 to 1") for name in ("mean", "sd"))
    return _size(row, place), mean, sd * sd


def _size(row: Mapping[str, Any], place: str) -> float:
    right = "a whole number from 2 on"
    n = _number(row, "n", place, _MOST, right)
    if n < 2 or n != int(n):
        raise AnalysisError(f"{place}: n: {right} is wanted")
    return n


def _number(row: Mapping[str, Any], name: str, place: str, most: float, right: str) -> float:
    """A number from 0 to ``most``. Raises AnalysisError, in which ``right`` describes it."""
    value = row[name]
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not 0 <= value <= most:  # false for NaN
        raise AnalysisError(f"{place}: {name}: {right} is wanted")
    return float(value)


def _text(row: Mapping[str, Any], name: str, place: str) -> str:
    if not isinstance(row[name], str) or not row[name].strip():
        raise AnalysisError(f"{place}: {name}: a text is wanted")
    return str(row[name])

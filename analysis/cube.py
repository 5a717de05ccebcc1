"""All seed means of a table on one list of instances: what looks that share instances need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.load import Table, codes_of, one_of
from analysis.means import outcome_of
from registry.tables import Arm, Status


@dataclass(frozen=True, slots=True)
class Column:
    """One model at one wave."""

    wave: int
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """Instances, sorted by stratum and id, against models at waves.

    ``stratum`` (n,) holds places in ``strata``; ``public`` (n,) tells the arm, ``tranche`` (n,)
    what it was drawn into; ``values`` (n, columns, outcomes) are means over replicates, NaN without
    a scored run; ``scored`` and ``missing`` (n, columns) count runs. ``unit`` (n,) are the ids:
    they tell which instances of two looks are the same, and are told to nobody.
    """

    strata: tuple[str, ...]
    outcomes: tuple[str, ...]
    columns: tuple[Column, ...]
    stratum: NDArray[np.int64]
    public: NDArray[np.bool_]
    tranche: NDArray[np.int64]
    unit: NDArray[np.object_]
    values: NDArray[np.float64]
    scored: NDArray[np.int64]
    missing: NDArray[np.int64]

    def pick(self, columns: Sequence[int]) -> Cube:
        """Some columns, of the instances that any of them was to run."""
        chosen = list(columns)
        runs = self.scored[:, chosen] + self.missing[:, chosen]
        here = runs.any(axis=1)
        return Cube(
            self.strata,
            self.outcomes,
            tuple(self.columns[c] for c in chosen),
            self.stratum[here],
            self.public[here],
            self.tranche[here],
            self.unit[here],
            self.values[here][:, chosen],
            self.scored[here][:, chosen],
            self.missing[here][:, chosen],
        )

    def rows(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Which instances any of the columns was to run."""
        chosen = list(columns)
        runs = self.scored[:, chosen] + self.missing[:, chosen]
        return np.asarray(runs.any(axis=1), dtype=bool)

    def where(self, wave: int, models: Sequence[str]) -> list[int]:
        """The places of some models' columns at a wave, in the order of the columns."""
        wanted = set(models)
        return [
            place
            for place, column in enumerate(self.columns)
            if column.wave == wave and column.model in wanted
        ]


def make_cube(table: Table, outcomes: Sequence[str], strata: Sequence[str]) -> Cube:
    """The seed means of one grader's rows (spec/statistics.md, D3, D4): a model's own failure
    counts 0, a missing run is left out. Raises AnalysisError where ``outcome_of`` does, and for
    a stratum that holds one arm only."""
    held = table.where(one_of(table["stratum"], strata))
    if not len(held):
        raise AnalysisError(f"no rows in the strata {', '.join(strata)}: nothing to test")
    ids, instance = codes_of(held["instance"])
    names, row_stratum = codes_of(held["stratum"])
    models, row_model = codes_of(held["model"])
    waves, row_wave = codes_of(held["wave"])
    pairs, column = codes_of(row_wave * len(models) + row_model)
    columns = tuple(Column(waves[p // len(models)], models[p % len(models)]) for p in pairs)
    first = np.unique(instance, return_index=True)[1]
    stratum, public = row_stratum[first], (held["arm"] == Arm.PUBLIC)[first]
    _check_arms(names, stratum, public)
    shape = (len(first), len(columns))
    lost = held["status"] == Status.MISSING
    values = np.full((*shape, len(outcomes)), np.nan)
    for place, outcome in enumerate(outcomes):
        values[:, :, place] = _means(outcome_of(held, outcome), instance, column, shape)
    order = np.argsort(stratum, kind="stable")
    return Cube(
        tuple(names),
        tuple(outcomes),
        columns,
        stratum[order],
        public[order],
        held["tranche"][first][order],
        np.array(ids, dtype=object)[order],
        values[order],
        _counts(~lost, instance, column, shape)[order],
        _counts(lost, instance, column, shape)[order],
    )


def _means(
    value: NDArray[np.float64],
    instance: NDArray[np.int64],
    column: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.float64]:
    here = ~np.isnan(value)
    cell, size = instance[here] * shape[1] + column[here], shape[0] * shape[1]
    total = np.bincount(cell, weights=value[here], minlength=size)
    count = np.bincount(cell, minlength=size)
    mean = np.full(size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean.reshape(shape)


def _counts(
    mask: NDArray[np.bool_],
    instance: NDArray[np.int64],
    column: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    cell = instance[mask] * shape[1] + column[mask]
    return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def _check_arms(strata: list[str], stratum: NDArray[np.int64], public: NDArray[np.bool_]) -> None:
    for code, name in enumerate(strata):
        arms = public[stratum == code]
        if arms.all() or not arms.any():
            only = Arm.PUBLIC if arms.all() else Arm.PRIVATE
            raise AnalysisError(
                f"stratum {name!r}: rows of the {only} arm only; the test compares arms within a "
                "stratum and needs both"
            )

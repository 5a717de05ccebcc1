"""Seed means: the unit of the analysis is the instance, not the run and not the criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.data.table import ResultTable, codes_of, one_of
from analysis.errors import AnalysisError
from analysis.stats.adjustment import count_apart
from analysis.stats.intervals import one_armed
from analysis.stats.permutation import Bools, Floats, Ints
from registry.result_row import Arm, Status

OUTCOME_COLUMNS: Mapping[str, tuple[str, ...]] = {  # columns of the outcomes that plans register
    "score": ("score",),
    "key-fraction": ("key_fraction",),
    "fraction": ("passed", "total"),
    "gate-free": ("gate_free",),
}


LEAST_VARIED = 5
_BY_ROW = ("stratum", "public", "tranche", "unit")  # columns of SeedMeans by instance
_BY_CELL = ("values", "scored", "missing")  # by instance and column


@dataclass(frozen=True, slots=True)
class ModelAtWave:
    """One model at one wave."""

    wave: int
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class SeedMeans:
    """Mean outcomes of instances, sorted by stratum and id, for models at one wave or at several.

    ``stratum`` (n,) indexes ``strata``; ``public`` (n,) marks the public arm; ``tranche`` (n,) is
    the tranche of each instance. ``values`` (n, columns, outcomes) are means over replicates, NaN
    without a scored run; ``scored`` and ``missing`` (n, columns) count runs. ``unit`` (n,) are the
    instance ids: they match the instances of two looks and never appear in a report.
    """

    strata: tuple[str, ...]
    outcomes: tuple[str, ...]
    columns: tuple[ModelAtWave, ...]
    stratum: Ints
    public: Bools
    tranche: Ints
    unit: NDArray[np.object_]
    values: Floats
    scored: Ints
    missing: Ints

    @property
    def models(self) -> tuple[str, ...]:
        """The model of each column."""
        return tuple(column.model for column in self.columns)

    def pick(self, columns: Sequence[int]) -> SeedMeans:
        """Some columns, with the instances that at least one of them was to run."""
        chosen, here = list(columns), self.rows(columns)
        by_row = {name: getattr(self, name)[here] for name in _BY_ROW}
        by_cell = {name: getattr(self, name)[here][:, chosen] for name in _BY_CELL}
        picked = tuple(self.columns[c] for c in chosen)
        return replace(self, columns=picked, **by_row, **by_cell)

    def rows(self, columns: Sequence[int]) -> Bools:
        """Marks (n,) the instances that at least one of the columns was to run."""
        chosen = list(columns)
        runs = self.scored[:, chosen] + self.missing[:, chosen]
        return np.asarray(runs.any(axis=1), dtype=bool)

    def where(self, wave: int, models: Sequence[str]) -> list[int]:
        """Indices of some models' columns at a wave, in the order of the columns."""
        wanted = set(models)
        return [
            place
            for place, column in enumerate(self.columns)
            if column.wave == wave and column.model in wanted
        ]

    def varies(self, column: int) -> bool:
        """Reports if the scores of a column tell instances apart, as those of a control have to: a
        tenth of the instances, or ``LEAST_VARIED``, differ from their stratum's median."""
        values = self.values[:, column, 0]
        least = min(LEAST_VARIED, 0.1 * (~np.isnan(values)).sum())
        return bool(count_apart(values, self.stratum) >= max(least, 1))

    def has_both_arms(self, column: int) -> bool:
        """Reports if a column has a score in both arms of every stratum."""
        return not one_armed(self.values[:, column, 0], self.stratum, self.public)


@dataclass(frozen=True, slots=True)
class ArmCount:
    """Counts of one model's episodes in one arm of one wave, by their outcome."""

    wave: int
    model: str
    arm: Arm
    scored: int
    model_failure: int
    missing: int
    seeds: int  # with a scored run
    seeds_dropped: int  # all of their runs missing


def make_seed_means(
    table: ResultTable, outcomes: Sequence[str], strata: Sequence[str], *, wave: int | None = None
) -> SeedMeans:
    """Seed means of one grader's rows, of all waves or of one.

    A model's own failure counts 0; a missing run is left out, and the instance with it if all of
    its runs are missing. Raises AnalysisError if no row is left, if a stratum has one arm only, and
    as ``outcome_of`` does.
    """
    wanted = one_of(table["stratum"], strata)
    graded = table.where(wanted if wave is None else wanted & (table["wave"] == wave))
    if not len(graded):
        raise AnalysisError(f"no rows in the strata {', '.join(strata)}: nothing to test")
    ids, instance = codes_of(graded["instance"])
    names, row_stratum = codes_of(graded["stratum"])
    models, row_model = codes_of(graded["model"])
    waves, row_wave = codes_of(graded["wave"])
    pairs, column = codes_of(row_wave * len(models) + row_model)
    first = np.unique(instance, return_index=True)[1]
    stratum, public = row_stratum[first], (graded["arm"] == Arm.PUBLIC)[first]
    _check_arms("" if wave is None else f"wave {wave}, ", names, stratum, public)
    shape, cell = (len(ids), len(pairs)), instance * len(pairs) + column
    lost = graded["status"] == Status.MISSING
    values = np.stack([_cell_means(outcome_of(graded, o), cell, shape) for o in outcomes], axis=2)
    order = np.argsort(stratum, kind="stable")
    return SeedMeans(
        strata=tuple(names),
        outcomes=tuple(outcomes),
        columns=tuple(ModelAtWave(waves[p // len(models)], models[p % len(models)]) for p in pairs),
        stratum=stratum[order],
        public=public[order],
        tranche=graded["tranche"][first][order],
        unit=np.array(ids, dtype=object)[order],
        values=values[order],
        scored=_counts(cell[~lost], shape)[order],
        missing=_counts(cell[lost], shape)[order],
    )


def outcome_of(table: ResultTable, outcome: str) -> Floats:
    """An outcome by row, NaN where missing: one that a plan registers (``OUTCOME_COLUMNS``) or the
    score of a part, such as ``score_sr``, which is NaN also in a stratum that has no criterion of
    it. Raises AnalysisError if scored rows lack the columns of a registered outcome."""
    if outcome.startswith("score_"):
        return _dimension_of(table, outcome)
    columns = OUTCOME_COLUMNS[outcome]
    value = table[columns[0]] / table[columns[1]] if len(columns) == 2 else table[columns[0]]
    value = np.where(table["status"] == Status.MODEL_FAILURE, 0.0, value)
    lacking = np.isnan(value) & (table["status"] == Status.SCORED)
    if lacking.any():
        raise AnalysisError(
            f"outcome {outcome!r} needs {' and '.join(columns)} in every scored row, and "
            f"{lacking.sum()} lack it, one of them of the stratum "
            f"{table['stratum'][lacking][0]!r}: register outcomes that the rows have, such as "
            "'score' alone"
        )
    return value


def _dimension_of(table: ResultTable, name: str) -> Floats:
    value: Floats = table[name]
    having = np.unique(table["stratum"][~np.isnan(value)])
    failed = (table["status"] == Status.MODEL_FAILURE) & one_of(table["stratum"], having)
    return np.where(failed, 0.0, value)


def count_arms(table: ResultTable) -> tuple[ArmCount, ...]:
    """Episode counts by wave, model and arm, of one grader's rows."""
    import pandas as pd

    cell = ["wave", "model", "arm"]
    rows = pd.DataFrame({name: table[name] for name in (*cell, "status", "instance")})
    rows["kept"] = rows["instance"].where(rows["status"] != Status.MISSING)
    by_status = {str(status): rows["status"] == status for status in Status}
    counts = rows.assign(**by_status).groupby(cell)[[*by_status]].sum()
    seeds = rows.groupby(cell)[["instance", "kept"]].nunique()
    counts = counts.assign(seeds=seeds["kept"], seeds_dropped=seeds["instance"] - seeds["kept"])
    return tuple(
        ArmCount(**{str(name): value for name, value in row.items()} | {"arm": Arm(row["arm"])})
        for row in counts.reset_index().to_dict("records")
    )


def _cell_means(value: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    """Mean of the non-missing values of each (instance, column), NaN if there is none."""
    here = ~np.isnan(value)
    total, count = _counts(cell[here], shape, value[here]), _counts(cell[here], shape)
    means: Floats = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
    return means


def _counts(cell: Ints, shape: tuple[int, int], weights: Floats | None = None) -> NDArray[Any]:
    return np.bincount(cell, weights, minlength=shape[0] * shape[1]).reshape(shape)


def _check_arms(place: str, strata: list[str], stratum: Ints, public: Bools) -> None:
    for code, name in enumerate(strata):
        arms = public[stratum == code]
        if arms.all() or not arms.any():
            only = Arm.PUBLIC if arms.all() else Arm.PRIVATE
            raise AnalysisError(
                f"{place}stratum {name!r}: rows of the {only} arm only; the test compares arms "
                "within a stratum and needs both"
            )

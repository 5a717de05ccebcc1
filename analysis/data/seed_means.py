"""Seed means: the unit of the analysis is the instance, not the run and not the criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.data.table import Table, codes_of, one_of
from analysis.errors import AnalysisError
from registry.result_row import Arm, Status


@dataclass(frozen=True, slots=True, eq=False)
class SeedMeans:
    """The instances of one wave, sorted by stratum and id, with each model's mean outcomes.

    ``stratum`` (n,) holds places in ``strata``; ``public`` (n,) tells the arm, ``tranche`` (n,)
    what it was drawn into; ``values`` (n, models, outcomes) are means over replicates, NaN where a
    model has no scored run of the instance. Ids are left behind: what follows needs none.
    """

    wave: int
    models: tuple[str, ...]
    strata: tuple[str, ...]
    outcomes: tuple[str, ...]
    stratum: NDArray[np.int64]
    public: NDArray[np.bool_]
    values: NDArray[np.float64]
    tranche: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArmCount:
    """What became of one model's episodes in one arm of one wave."""

    wave: int
    model: str
    arm: Arm
    scored: int
    model_failure: int
    missing: int
    seeds: int  # with a scored run
    seeds_dropped: int  # all of their runs missing


def means_per_seed(
    table: Table, wave: int, outcomes: Sequence[str], strata: Sequence[str]
) -> SeedMeans:
    """Means over replicates of one grader's rows in one wave (spec/statistics.md, D3, D4).

    A model's failure counts 0; a missing run is left out, and the seed with it when all of its
    runs are missing. Raises AnalysisError where a stratum has one arm only.
    """
    held = table.where((table["wave"] == wave) & one_of(table["stratum"], strata))
    ids, row_instance = codes_of(held["instance"])
    models, row_model = codes_of(held["model"])
    names, row_stratum = codes_of(held["stratum"])
    first = np.unique(row_instance, return_index=True)[1]
    stratum, public = row_stratum[first], (held["arm"] == Arm.PUBLIC)[first]
    _check_arms(wave, names, stratum, public)
    values = np.full((len(ids), len(models), len(outcomes)), np.nan)
    for place, outcome in enumerate(outcomes):
        values[:, :, place] = _cell_means(
            outcome_of(held, outcome), row_instance, row_model, values.shape
        )
    order = np.argsort(stratum, kind="stable")
    return SeedMeans(
        wave, tuple(models), tuple(names), tuple(outcomes),
        stratum[order], public[order], values[order], held["tranche"][first][order],
    )  # fmt: skip


def outcome_of(table: Table, outcome: str) -> NDArray[np.float64]:
    """An outcome by row, NaN where missing: ``score`` (weighted), ``fraction`` (criteria passed of
    total) or the score of a part, such as ``score_sr``, NaN too in a stratum that has no criterion
    of it. Raises AnalysisError where ``fraction`` is asked of rows without counts."""
    if outcome.startswith("score_"):
        return _dimension_of(table, outcome)
    value = table["score"] if outcome == "score" else table["passed"] / table["total"]
    value = np.where(table["status"] == Status.MODEL_FAILURE, 0.0, value)
    if np.isnan(value[table["status"] == Status.SCORED]).any():
        raise AnalysisError(
            f"outcome {outcome!r} needs the columns passed and total in every scored row; "
            "register the outcome 'score' alone where a grader does not count criteria"
        )
    return value


def _dimension_of(table: Table, name: str) -> NDArray[np.float64]:
    value: NDArray[np.float64] = table[name]
    having = np.unique(table["stratum"][~np.isnan(value)])
    failed = (table["status"] == Status.MODEL_FAILURE) & one_of(table["stratum"], having)
    return np.where(failed, 0.0, value)


def count_arms(table: Table) -> tuple[ArmCount, ...]:
    """The funnel by wave, model and arm, of one grader's rows."""
    keys, cell = _cells(table)
    ids, instance = codes_of(table["instance"])
    present = table["status"] != Status.MISSING
    pair = cell * len(ids) + instance
    every, held = (
        np.bincount(_distinct(own) // max(len(ids), 1), minlength=len(keys)).tolist()
        for own in (pair, pair[present])
    )
    by = {s: np.bincount(cell[table["status"] == s], minlength=len(keys)).tolist() for s in Status}
    return tuple(
        ArmCount(
            wave, model, arm,
            by[Status.SCORED][i], by[Status.MODEL_FAILURE][i], by[Status.MISSING][i],
            held[i], every[i] - held[i],
        )
        for i, (wave, model, arm) in enumerate(keys)
    )  # fmt: skip


def _cells(table: Table) -> tuple[list[tuple[int, str, Arm]], NDArray[np.int64]]:
    """The cells (wave, model, arm) that have rows, in order, and each row's place among them."""
    (waves, wave), (models, model), (arms, arm) = (
        codes_of(table[name]) for name in ("wave", "model", "arm")
    )
    found, cell = codes_of((wave * len(models) + model) * len(arms) + arm)
    keys = []
    for code in found:
        rest, last = divmod(code, len(arms))
        first, middle = divmod(rest, len(models))
        keys.append((waves[first], models[middle], Arm(arms[last])))
    return keys, cell


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct values in order. np.unique hashes whole numbers, at many times the cost."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0])


def _cell_means(
    value: NDArray[np.float64],
    instance: NDArray[np.int64],
    model: NDArray[np.int64],
    shape: tuple[int, ...],
) -> NDArray[np.float64]:
    """Mean of the non-missing values of each (instance, model), NaN where there are none."""
    here, size = ~np.isnan(value), shape[0] * shape[1]
    cell = instance[here] * shape[1] + model[here]
    total = np.bincount(cell, weights=value[here], minlength=size)
    count = np.bincount(cell, minlength=size)
    mean = np.full(size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean.reshape(shape[:2])


def _check_arms(
    wave: int, strata: list[str], stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> None:
    for code, name in enumerate(strata):
        arms = public[stratum == code]
        if arms.all() or not arms.any():
            only = Arm.PUBLIC if arms.all() else Arm.PRIVATE
            raise AnalysisError(
                f"wave {wave}, stratum {name!r}: rows of the {only} arm only; the test compares "
                "arms within a stratum and needs both"
            )


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
    _check_arms_of_cube(names, stratum, public)
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


def _check_arms_of_cube(
    strata: list[str], stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> None:
    for code, name in enumerate(strata):
        arms = public[stratum == code]
        if arms.all() or not arms.any():
            only = Arm.PUBLIC if arms.all() else Arm.PRIVATE
            raise AnalysisError(
                f"stratum {name!r}: rows of the {only} arm only; the test compares arms within a "
                "stratum and needs both"
            )

"""Seed means: the unit of the analysis is the instance, not the run and not the criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.load import Table, codes_of, one_of
from registry.tables import Arm, Status


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


def seed_means(
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

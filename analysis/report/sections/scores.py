"""Mean scores by dimension of the rubrics and arm, for readers; no test is made of them here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.data import ResultTable, SeedMeans, make_seed_means, one_of
from analysis.plan import DIMENSIONS
from analysis.stats import estimate_mean
from registry.ledger import Plan
from registry.result_row import Arm


@dataclass(frozen=True, slots=True)
class DimensionMean:
    """A model's mean in one dimension and arm, over the strata that have it in both arms."""

    wave: int
    model: str
    dimension: str
    arm: Arm
    strata: int
    mean: float
    interval: tuple[float, float] | None  # two-sided 95 %
    seeds: int


def dimension_means(plan: Plan, table: ResultTable) -> tuple[DimensionMean, ...]:
    """The means of one grader's rows, in the plan's strata; none where rows tell no dimension."""
    graded = table.where(one_of(table["stratum"], plan.strata))
    if all(np.isnan(graded[name]).all() for name in DIMENSIONS):
        return ()
    waves = sorted(set(graded["wave"].tolist()))
    return tuple(
        mean
        for wave in waves
        for mean in _means(make_seed_means(graded, tuple(DIMENSIONS), plan.strata, wave=wave))
    )


def _means(data: SeedMeans) -> Iterator[DimensionMean]:
    for m, model in enumerate(data.models):
        for o, name in enumerate(data.outcomes):
            there = ~np.isnan(data.values[:, m, o])
            both = set(data.stratum[there & data.public].tolist())
            both &= set(data.stratum[there & ~data.public].tolist())
            if not both:
                continue
            there &= np.isin(data.stratum, list(both))
            for arm in (Arm.PUBLIC, Arm.PRIVATE):
                rows = there & (data.public == (arm == Arm.PUBLIC))
                mean = estimate_mean(data.values[rows, m, o], data.stratum[rows])
                key = data.columns[m].wave, model, DIMENSIONS[name], arm, len(both)
                yield DimensionMean(*key, mean.mean, mean.interval, mean.seeds)

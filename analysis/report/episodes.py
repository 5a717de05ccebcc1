"""Outcomes of the episodes, their effort and cost, and mean scores by dimension: numbers for
readers, none of which is part of the test.

Rounds, calls and costs are reported by wave and model alone, blind to the arms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import ResultTable, one_of
from analysis.plan.sensitivity import DIMENSIONS
from analysis.stats.intervals import estimate_mean
from registry.ledger.records import Plan
from registry.result_row import Arm, Status

_PLAIN_ENDS = ("", "stop", "tool_call", "length")  # finishes that add nothing to a stop reason


@dataclass(frozen=True, slots=True)
class Loss:
    """Episodes of one model in one arm without a score of their own, by cause: the class of
    the error if infrastructure failed, else the way in which the model's attempt stopped, and its
    last reply if that was no plain answer."""

    wave: int
    model: str
    arm: Arm
    status: Status
    cause: str
    episodes: int


@dataclass(frozen=True, slots=True)
class Effort:
    """Rounds, calls and seconds of a model's episodes, as means; missing ones are left out."""

    wave: int
    model: str
    episodes: int
    rounds: float
    most_rounds: int
    calls: float
    without_calls: int  # episodes
    limited: int  # episodes that hit a limit
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the attempts that count. ``usd`` is of the ``priced`` episodes, None if no price is
    known; ``free`` is true for models without a provider to pay."""

    wave: int
    model: str
    episodes: int
    priced: int
    usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    free: bool


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


def count_rows(*columns: NDArray[Any]) -> dict[tuple[Any, ...], int]:
    """The number of rows with each combination of values, in the order of the values."""
    import pandas as pd

    rows = pd.DataFrame(dict(enumerate(columns)))
    return cast(dict[tuple[Any, ...], int], rows.groupby([*rows], dropna=False).size().to_dict())


def count_losses(table: ResultTable) -> tuple[Loss, ...]:
    """Missing episodes and failures of models, of one grader's rows."""
    lost = table.where(table["status"] != Status.SCORED)
    error, stop, finish = lost["error_class"], lost["stop_reason"], lost["finish"].astype(str)
    odd = np.char.add(np.char.add(stop.astype(str), ": "), finish)
    stop = np.where(np.isin(finish, _PLAIN_ENDS), stop, odd)
    cause = np.where(error != "", error, np.where(stop != "", stop, "not told"))
    counts = count_rows(lost["wave"], lost["model"], lost["arm"], lost["status"], cause)
    return tuple(
        Loss(wave=wave, model=model, arm=Arm(arm), status=Status(status), cause=why, episodes=count)
        for (wave, model, arm, status, why), count in counts.items()
    )


def measure_effort(table: ResultTable) -> tuple[Effort, ...]:
    """Rounds, calls and seconds by wave and model, of one grader's rows."""
    import pandas as pd

    present = table.where(table["status"] != Status.MISSING)
    frame = pd.DataFrame(
        {name: present[name] for name in ("wave", "model", "turns", "tool_calls", "seconds")}
        | {"silent": present["tool_calls"] == 0, "limited": present["limits_hit"] != ""}
    )
    means = frame.groupby(["wave", "model"]).agg(
        episodes=("turns", "size"),
        rounds=("turns", "mean"),
        most_rounds=("turns", "max"),
        calls=("tool_calls", "mean"),
        without_calls=("silent", "sum"),
        limited=("limited", "sum"),
        seconds=("seconds", "mean"),
    )
    return tuple(Effort(*row) for row in means.reset_index().itertuples(index=False, name=None))


def add_costs(table: ResultTable, free: Collection[str] = ()) -> tuple[Cost, ...]:
    """Cost and tokens by wave and model, of one grader's rows. ``free`` names the models that are
    bought from nobody."""
    import pandas as pd

    names = ("wave", "model", "cost_usd", "input_tokens", "output_tokens")
    groups = pd.DataFrame({name: table[name] for name in names}).groupby(["wave", "model"])
    sums = groups.sum(min_count=1).assign(episodes=groups.size(), priced=groups.cost_usd.count())
    rows = sums.reset_index().itertuples(index=False, name=None)
    return tuple(
        Cost(
            wave=wave,
            model=model,
            episodes=episodes,
            priced=priced,
            usd=None if isnan(usd) else usd,
            input_tokens=None if isnan(tokens_in) else round(tokens_in),
            output_tokens=None if isnan(tokens_out) else round(tokens_out),
            free=model in free,
        )
        for wave, model, usd, tokens_in, tokens_out, episodes, priced in rows
    )


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

"""Outcomes of the episodes, their effort and cost: counts that are no part of the test.

Rounds, calls and costs are reported by wave and model alone, blind to the arms.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.data import ResultTable, codes_of
from registry.result_row import Arm, Status


@dataclass(frozen=True, slots=True)
class Loss:
    """Episodes of one model in one arm that came to no score of their own, and by what cause: the
    class of the error where infrastructure failed, else how the model's attempt stopped."""

    wave: int
    model: str
    arm: Arm
    status: Status
    cause: str
    episodes: int


@dataclass(frozen=True, slots=True)
class Effort:
    """What a model's episodes took, in means an episode; missing ones are left out."""

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


def count_losses(table: ResultTable) -> tuple[Loss, ...]:
    """Missing episodes and failures of models, of one grader's rows."""
    lost = table.where(table["status"] != Status.SCORED)
    if not len(lost):
        return ()
    error, stop = lost["error_class"], lost["stop_reason"]
    cause = np.where(error != "", error, np.where(stop != "", stop, "not told"))
    keys, cell = _group(lost["wave"], lost["model"], lost["arm"], lost["status"], cause)
    counts = np.bincount(cell, minlength=len(keys)).tolist()
    return tuple(
        Loss(wave, model, Arm(arm), Status(status), why, count)
        for (wave, model, arm, status, why), count in zip(keys, counts, strict=True)
    )


def measure_effort(table: ResultTable) -> tuple[Effort, ...]:
    """Rounds, calls and seconds by wave and model, of one grader's rows."""
    present = table.where(table["status"] != Status.MISSING)
    if not len(present):
        return ()
    keys, cell = _group(present["wave"], present["model"])
    size = len(keys)
    count = np.bincount(cell, minlength=size)
    turns, calls, seconds = (
        np.bincount(cell, weights=present[name], minlength=size) / count
        for name in ("turns", "tool_calls", "seconds")
    )
    most = np.zeros(size, dtype=np.int64)
    np.maximum.at(most, cell, present["turns"])
    silent = np.bincount(cell[present["tool_calls"] == 0], minlength=size)
    limited = np.bincount(cell[present["limits_hit"] != ""], minlength=size)
    return tuple(
        Effort(
            wave,
            model,
            int(count[i]),
            float(turns[i]),
            int(most[i]),
            float(calls[i]),
            int(silent[i]),
            int(limited[i]),
            float(seconds[i]),
        )
        for i, (wave, model) in enumerate(keys)
    )


def add_costs(table: ResultTable, free: Collection[str] = ()) -> tuple[Cost, ...]:
    """Cost and tokens by wave and model, of one grader's rows. ``free`` names the models that are
    bought from nobody."""
    if not len(table):
        return ()
    keys, cell = _group(table["wave"], table["model"])
    count = np.bincount(cell, minlength=len(keys))
    usd, tokens_in, tokens_out = (
        _known(table[name], cell, len(keys))
        for name in ("cost_usd", "input_tokens", "output_tokens")
    )
    return tuple(
        Cost(
            wave,
            model,
            int(count[i]),
            usd[i][1],
            usd[i][0],
            _whole(tokens_in[i][0]),
            _whole(tokens_out[i][0]),
            model in free,
        )
        for i, (wave, model) in enumerate(keys)
    )


def _known(
    values: NDArray[np.float64], cell: NDArray[np.int64], size: int
) -> list[tuple[float | None, int]]:
    """The sum of what is known in each cell, None where nothing is, and how much is."""
    here = ~np.isnan(values)
    total = np.bincount(cell[here], weights=values[here], minlength=size).tolist()
    count = np.bincount(cell[here], minlength=size).tolist()
    return [(s if n else None, n) for s, n in zip(total, count, strict=True)]


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _group(*columns: NDArray[Any]) -> tuple[list[tuple[Any, ...]], NDArray[np.int64]]:
    """The distinct rows of some columns, in order, and each row's place among them."""
    lists, codes = zip(*(codes_of(column) for column in columns), strict=True)
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for distinct, own in zip(lists, codes, strict=True):
        key = key * len(distinct) + own
    distinct_keys, cell = codes_of(key)
    keys = []
    for code in distinct_keys:
        values = []
        for distinct in reversed(lists):
            code, place = divmod(code, len(distinct))
            values.append(distinct[place])
        keys.append(tuple(reversed(values)))
    return keys, cell

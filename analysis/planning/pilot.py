"""Results of a pilot: scores by turn budget with ceiling and floor, and variance components."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from analysis.data import ResultTable
from analysis.errors import AnalysisError
from analysis.planning.variance_components import PilotVariance, estimate_components
from registry.result_row import EpisodeColumns

_AT_LIMIT = "turn_limit"  # the stop reason of a run that met its turn budget


@dataclass(frozen=True, slots=True)
class TurnScore:
    """The runs of a model on a stratum with one turn budget. ``error`` is the standard error of the
    mean score over instances, None with fewer than two; ceiling, floor and ``at_limit`` are the
    shares of runs that score 1, that score 0, and that were ended by the budget."""

    model: str
    stratum: str
    turns: int  # the budget
    instances: int
    runs: int
    score: float
    error: float | None
    ceiling: float
    floor: float
    at_limit: float
    turns_taken: float  # mean of a run


def score_by_turns(runs: Iterable[tuple[int, EpisodeColumns]]) -> tuple[TurnScore, ...]:
    """Return the scores by model, stratum and turn budget, in the order first met and with rising
    budgets. ``runs`` are pairs of budget and row; rows without a score are left out."""
    groups: dict[tuple[str, str], dict[int, list[EpisodeColumns]]] = {}
    for turns, row in runs:
        if row.score is not None:
            by_turns = groups.setdefault((row.model, row.stratum), {})
            by_turns.setdefault(turns, []).append(row)
    return tuple(
        _turn_score(*group, turns, by_turns[turns])
        for group, by_turns in groups.items()
        for turns in sorted(by_turns)
    )


def _turn_score(model: str, stratum: str, turns: int, rows: Sequence[EpisodeColumns]) -> TurnScore:
    by_instance: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_instance[row.instance].append(row.score or 0.0)
    means = [fmean(scores) for scores in by_instance.values()]
    scores = [row.score for row in rows]
    return TurnScore(
        model,
        stratum,
        turns,
        len(means),
        len(rows),
        fmean(means),
        stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None,
        scores.count(1.0) / len(rows),
        scores.count(0.0) / len(rows),
        fmean(row.stop_reason == _AT_LIMIT for row in rows),
        fmean(row.turns for row in rows),
    )


@dataclass(frozen=True, slots=True)
class StratumVariance:
    """How the ``outcomes`` of a stratum vary, or of all strata ("") together. ``reason`` says why
    that of some or of all cannot be estimated."""

    stratum: str
    found: PilotVariance | None
    outcomes: tuple[str, ...]
    reason: str = ""


def variance_by_stratum(
    table: ResultTable, outcomes: Sequence[str], strata: Sequence[str]
) -> tuple[StratumVariance, ...]:
    """Return the variance components of each stratum, and after them those of all together: of the
    first outcome alone if that of another cannot be estimated."""
    groups = [(stratum, [stratum]) for stratum in strata]
    return tuple(
        _stratum_variance(table, outcomes, *group) for group in (*groups, ("", list(strata)))
    )


def _stratum_variance(
    table: ResultTable, outcomes: Sequence[str], name: str, strata: Sequence[str]
) -> StratumVariance:
    reason = ""
    for tried in dict.fromkeys((tuple(outcomes), tuple(outcomes[:1]))):
        try:
            return StratumVariance(name, estimate_components(table, tried, strata), tried, reason)
        except AnalysisError as error:
            reason = reason or str(error)
    return StratumVariance(name, None, (), reason)

"""Results of a pilot: scores against turns with ceiling and floor."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from registry.result_row import EpisodeColumns

_AT_LIMIT = "turn_limit"  # the stop reason of a run that met its turn budget
_SHARES = (4, 2, 1)  # of the task's own turns


@dataclass(frozen=True, slots=True)
class TurnScore:
    """The runs of a model on a stratum after a number of turns, where a run that took more scores
    0: a model that is given fewer turns may answer sooner and score more. ``error`` is the standard
    error of the mean score over instances, None with fewer than two; ceiling, floor and
    ``at_limit`` are the shares of runs that score 1, that score 0, and that had not ended."""

    model: str
    stratum: str
    turns: int
    limit: int  # the task's own turns
    instances: int
    runs: int
    score: float
    error: float | None
    ceiling: float
    floor: float
    at_limit: float


def score_by_turns(
    rows: Iterable[EpisodeColumns], limits: Mapping[str, int]
) -> tuple[TurnScore, ...]:
    """Return the scores by model and stratum, in the order first met, after a quarter, a half and
    all of the stratum's turns, which ``limits`` has. Rows without a score are left out."""
    groups: dict[tuple[str, str], list[EpisodeColumns]] = defaultdict(list)
    for row in rows:
        if row.score is not None:
            groups[row.model, row.stratum].append(row)
    return tuple(
        _turn_score(model, stratum, turns, limits[stratum], runs)
        for (model, stratum), runs in groups.items()
        for turns in sorted({max(1, limits[stratum] // share) for share in _SHARES})
    )


def _turn_score(
    model: str, stratum: str, turns: int, limit: int, rows: Sequence[EpisodeColumns]
) -> TurnScore:
    by_instance: dict[str, list[float]] = defaultdict(list)
    late = [row.turns > turns if turns < limit else row.stop_reason == _AT_LIMIT for row in rows]
    for row, over in zip(rows, late, strict=True):
        lost = over and turns < limit
        by_instance[row.instance].append(0.0 if lost else row.score or 0.0)
    means = [fmean(scores) for scores in by_instance.values()]
    scores = [score for own in by_instance.values() for score in own]
    return TurnScore(
        model=model,
        stratum=stratum,
        turns=turns,
        limit=limit,
        instances=len(means),
        runs=len(rows),
        score=fmean(means),
        error=stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None,
        ceiling=scores.count(1.0) / len(rows),
        floor=scores.count(0.0) / len(rows),
        at_limit=fmean(late),
    )

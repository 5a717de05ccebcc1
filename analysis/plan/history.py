"""The order of waves and release, known beside a table of results: waves before the publication,
and waves that were begun and not closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

import numpy as np

from analysis.data.seed_means import make_seed_means
from analysis.data.table import ResultTable, one_of
from analysis.plan.presets import control_models
from analysis.stats.intervals import estimate_gap
from registry.ledger.records import Plan

RANDOM, BY_TIME = "random", "time"
ALLOCATIONS = (RANDOM, BY_TIME, "authored", "unknown")


@dataclass(frozen=True, slots=True)
class WaveHistory:
    """The release of the public arm and the waves, in their order. The default is a history of
    which nothing is known: every wave of a table that tests a model is a look.

    ``published`` is the day of the first release, None without one. ``before`` are the waves that
    were begun before the release: they are no looks, and their models get no verdict. ``dropped``
    are the later waves with models under test that were begun and not closed: their looks are
    spent. ``allocation`` is the rule that allotted instances to the arms.
    """

    published: date | None = None
    before: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    allocation: str = RANDOM

    def number_looks(self, waves: Iterable[int]) -> dict[int, int]:
        """The number, from 1, of the look at each of the waves that is one. Dropped waves are
        counted, so that dropping a wave gains no look."""
        tested = set(waves) - self.before
        places = {wave: n for n, wave in enumerate(sorted(tested | self.dropped), start=1)}
        return {wave: places[wave] for wave in sorted(tested)}


NO_HISTORY = WaveHistory()


@dataclass(frozen=True, slots=True)
class EarlyGap:
    """The gap of a model at a wave before the publication, which cannot show contamination.
    ``gap`` is None if an arm of a stratum has no score."""

    model: str
    wave: int
    gap: float | None  # public minus private, of the first outcome, not calibrated
    interval: tuple[float, float]  # two-sided 95 %
    n_public: int  # instances
    n_private: int


def early_gaps(plan: Plan, graded: ResultTable, history: WaveHistory) -> Iterator[EarlyGap]:
    """The gaps of the models under test at waves before the publication. ``graded`` are the rows
    of one grader in the plan's strata."""
    if not history.before:
        return
    fresh = ~one_of(graded["model"], control_models(plan))
    rows = graded.where(fresh & one_of(graded["wave"], history.before))
    for wave in sorted(set(rows["wave"].tolist())):
        means = make_seed_means(rows, plan.outcomes, plan.strata, wave=wave)
        for m, column in enumerate(means.columns):
            scores, public = means.values[:, m, 0], means.public
            scored = ~np.isnan(scores)
            counts = int((scored & public).sum()), int((scored & ~public).sum())
            if means.has_both_arms(m):
                found = estimate_gap(scores, means.stratum, public)
                yield EarlyGap(column.model, wave, found.gap, found.interval, *counts)
            else:
                yield EarlyGap(column.model, wave, None, (-1.0, 1.0), *counts)

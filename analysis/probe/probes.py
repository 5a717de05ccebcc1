"""Tests of exposure: whether models know public instances from memory, and private ones not.

Closed-book probes ask models for values without the data. What is tested is the share of an
instance's own values that a closed-book reply had right, by the stratified permutation test of P1
on that one outcome, unadjusted, over the models of a wave by Westfall and Young. Secondary: it
withholds and issues no verdict. It is there since a null gap in scores speaks for resistance only
where models were exposed at all.

"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan.presets import look_alpha, plan_draws
from analysis.stats.intervals import estimate_gap, one_armed
from analysis.stats.permutation import (
    Bools,
    Floats,
    Ints,
    max_t,
    p_floor,
    p_values,
    permutation_seed,
    permute_gaps,
    westfall_young,
)
from registry.ledger.records import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The probes of one model at a wave, by arm: mean scores over strata, their gap with a
    two-sided 95 % interval (if the variance cannot be estimated: that of the scale), and p-values
    (one-sided), adjusted over the models that were tested together. ``exposed``: adjusted p at or
    below ``alpha``, the look's."""

    wave: int
    model: str
    public: float
    private: float
    gap: float
    interval: tuple[float, float]
    p: float
    p_adjusted: float
    n_public: int
    n_private: int
    strata: int
    p_floor: float = 0.0  # the least p that the permutations can show
    alpha: float
    exposed: bool


def compare_exposure(
    plan: Plan,
    columns: Mapping[str, Sequence[float]],
    stratum: Ints,
    public: Bools,
    *,
    wave: int,
    registration: str,
) -> Iterator[Exposure]:
    """The stratified permutation test of some models' scores at a wave, each (n,), of public above
    private: a model whose probes are not complete is not tested. Raises AnalysisError for holes,
    and for a stratum with one arm only."""
    if not columns:
        return
    seed, alpha = permutation_seed(registration, "S1", "exposure", str(wave)), look_alpha(plan)
    values = np.array(list(columns.values()), dtype=np.float64).T
    if not np.isfinite(values).all():
        raise AnalysisError(f"wave {wave}: a probe is missing or is no number: complete them first")
    if one_armed(values[:, 0], stratum, public):
        raise AnalysisError(f"wave {wave}: a stratum was probed in one arm only")
    statistics = max_t(permute_gaps(values[:, :, None], stratum, public, **plan_draws(plan, seed)))
    p, adjusted = p_values(statistics).tolist(), westfall_young(statistics).tolist()
    strata = np.unique(stratum)

    def mean(column: Floats, arm: Bools) -> float:
        return float(np.mean([column[arm & (stratum == h)].mean() for h in strata]))

    for place, model in enumerate(columns):
        column = values[:, place]
        estimate = estimate_gap(column, stratum, public)
        yield Exposure(
            wave=wave,
            model=model,
            public=mean(column, public),
            private=mean(column, ~public),
            gap=estimate.gap,
            interval=estimate.interval,
            p=p[place],
            p_adjusted=adjusted[place],
            n_public=estimate.n_public,
            n_private=estimate.n_private,
            strata=len(strata),
            p_floor=p_floor(statistics),
            alpha=alpha,
            exposed=adjusted[place] <= alpha,
        )

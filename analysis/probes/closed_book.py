"""Exposure probes, tested: do models know public instances without their data, and private not?

spec/statistics.md, S1: the share of an instance's own values that a closed-book reply had right, by
the stratified permutation test of P1 on that one outcome, unadjusted, over the models of a wave by
Westfall and Young. Secondary: it withholds and issues no verdict. It is there since a null gap in
scores speaks for resistance only where models were exposed at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.plan import look_alpha
from analysis.stats import (
    GapEstimate,
    estimate_gap,
    max_t,
    p_values,
    permutation_seed,
    permute_gaps,
    westfall_young,
)
from registry.ledger import Plan


@dataclass(frozen=True, slots=True)
class Exposure:
    """One model's probes at a wave: means by arm and their gap, averaged over strata; one-sided p
    for public above private, and that adjusted over the wave's models. ``exposed``: adjusted p
    at or below ``alpha``, the look's."""

    wave: int
    model: str
    public: float
    private: float
    gap: float
    interval: tuple[float, float]
    p: float
    p_adjusted: float
    alpha: float
    exposed: bool
    n_public: int
    n_private: int
    strata: int


@dataclass(frozen=True, slots=True)
class ArmGap:
    """One column of values by arm: means over strata, their gap, and one-sided p-values, adjusted
    over the columns that were tested together."""

    public: float
    private: float
    estimate: GapEstimate
    p: float
    p_adjusted: float


def compare_arms(
    plan: Plan,
    values: NDArray[np.float64],
    signs: NDArray[np.float64],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    seed: int,
) -> list[ArmGap]:
    """The stratified permutation test of each column of ``values`` (n, columns), in the direction
    of its sign (columns,): 1 for public above private, -1 for below."""
    statistics = max_t(
        permute_gaps(
            (values * signs)[:, :, None],
            stratum,
            public,
            permutations=plan.permutations,
            enumerate_up_to=plan.enumerate_up_to,
            seed=seed,
        )
    )
    p, adjusted = p_values(statistics), westfall_young(statistics)
    strata = np.unique(stratum)

    def mean(column: int, arm: NDArray[np.bool_]) -> float:
        return float(np.mean([values[arm & (stratum == h), column].mean() for h in strata]))

    return [
        ArmGap(
            mean(column, public),
            mean(column, ~public),
            estimate_gap(values[:, column], stratum, public),
            float(p[column]),
            float(adjusted[column]),
        )
        for column in range(values.shape[1])
    ]


def test_exposure(
    plan: Plan,
    models: Sequence[str],
    scores: NDArray[np.float64],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    *,
    wave: int,
    registration: str,
) -> tuple[Exposure, ...]:
    """The test of some models' probes at a wave. ``scores`` (n, models) without NaN: a model
    whose probes are not complete is not tested. Raises AnalysisError for holes, and for a stratum
    with one arm only."""
    if not models:
        return ()
    if np.isnan(scores).any():
        raise AnalysisError(
            f"wave {wave}: probes are missing: complete them before they are tested"
        )
    for h in np.unique(stratum):
        if len(np.unique(public[stratum == h])) < 2:
            raise AnalysisError(f"wave {wave}: a stratum was probed in one arm only")
    seed = permutation_seed(registration, "S1", "exposure", str(wave))
    gaps = compare_arms(plan, scores, np.ones(len(models)), stratum, public, seed)
    alpha = look_alpha(plan)
    return tuple(
        Exposure(
            wave=wave,
            model=model,
            public=gap.public,
            private=gap.private,
            gap=gap.estimate.gap,
            interval=gap.estimate.interval,
            p=gap.p,
            p_adjusted=gap.p_adjusted,
            alpha=alpha,
            exposed=gap.p_adjusted <= alpha,
            n_public=gap.estimate.n_public,
            n_private=gap.estimate.n_private,
            strata=len(np.unique(stratum)),
        )
        for model, gap in zip(models, gaps, strict=True)
    )


test_exposure.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's

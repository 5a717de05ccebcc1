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
    gaps = permute_gaps(
        scores[:, :, None], stratum, public,
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
        seed=permutation_seed(registration, "S1", "exposure", str(wave)),
    )  # fmt: skip
    statistics = max_t(gaps)
    p, adjusted = p_values(statistics), westfall_young(statistics)
    alpha = look_alpha(plan)
    return tuple(
        _row(scores[:, m], stratum, public, wave, name, float(p[m]), float(adjusted[m]), alpha)
        for m, name in enumerate(models)
    )


test_exposure.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


def _row(
    scores: NDArray[np.float64],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    wave: int,
    model: str,
    p: float,
    adjusted: float,
    alpha: float,
) -> Exposure:
    found = estimate_gap(scores, stratum, public)
    strata = np.unique(stratum)

    def mean(arm: NDArray[np.bool_]) -> float:
        return float(np.mean([scores[arm & (stratum == h)].mean() for h in strata]))

    return Exposure(
        wave, model, mean(public), mean(~public), found.gap, found.interval, p, adjusted, alpha,
        adjusted <= alpha, found.n_public, found.n_private, len(strata),
    )  # fmt: skip

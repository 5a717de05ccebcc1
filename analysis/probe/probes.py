"""Tests of exposure: whether models know public instances from memory, and private ones not.

Closed-book probes ask models for values without the data. What is tested is the share of an
instance's own values that a closed-book reply had right, by the stratified permutation test of P1
on that one outcome, unadjusted, over the models of a wave by Westfall and Young. Secondary: it
withholds and issues no verdict. It is there since a null gap in scores speaks for resistance only
where models were exposed at all.

Text probes measure how likely a model finds public text and private: loss, Min-K% and Min-K%++
(Yeom et al. 2018; Shi et al. 2024; Zhang et al. 2024), exploratory. A model that was trained on the
public texts has a lower loss and higher scores on them: the gap, public minus private, is tested
one-sidedly in that direction, on each measure alone. No verdict and no other test hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan.presets import look_alpha, plan_draws
from analysis.stats.intervals import GapEstimate, estimate_gap, one_armed
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
    p_floor: float = 0.0  # the least p that the permutations can show


class ArmGap(TypedDict):
    """One column of values by arm: means over strata, their gap, and one-sided p-values, adjusted
    over the columns that were tested together."""

    public: float
    private: float
    gap: float
    p: float
    p_adjusted: float
    n_public: int
    n_private: int
    strata: int
    p_floor: float


def compare_arms(
    plan: Plan, values: Floats, signs: Floats, stratum: Ints, public: Bools, seed: int
) -> list[tuple[ArmGap, GapEstimate]]:
    """The stratified permutation test of each column of ``values`` (n, columns), in the direction
    of its sign (columns,): 1 for public above private, -1 for below."""
    signed = (values * signs)[:, :, None]
    statistics = max_t(permute_gaps(signed, stratum, public, **plan_draws(plan, seed)))
    p, adjusted = p_values(statistics).tolist(), westfall_young(statistics).tolist()
    strata = np.unique(stratum)

    def mean(column: Floats, arm: Bools) -> float:
        return float(np.mean([column[arm & (stratum == h)].mean() for h in strata]))

    gaps = []
    for place, column in enumerate(values.T):
        estimate = estimate_gap(column, stratum, public)
        gap = ArmGap(
            public=mean(column, public),
            private=mean(column, ~public),
            gap=estimate.gap,
            p=p[place],
            p_adjusted=adjusted[place],
            n_public=estimate.n_public,
            n_private=estimate.n_private,
            strata=len(strata),
            p_floor=p_floor(statistics),
        )
        gaps.append((gap, estimate))
    return gaps


def test_exposure(
    plan: Plan,
    models: Sequence[str],
    scores: Floats,
    stratum: Ints,
    public: Bools,
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
    if one_armed(scores[:, 0], stratum, public):
        raise AnalysisError(f"wave {wave}: a stratum was probed in one arm only")
    seed = permutation_seed(registration, "S1", "exposure", str(wave))
    gaps = compare_arms(plan, scores, np.ones(len(models)), stratum, public, seed)
    alpha = look_alpha(plan)
    return tuple(
        Exposure(
            wave=wave,
            model=model,
            interval=estimate.interval,
            alpha=alpha,
            exposed=gap["p_adjusted"] <= alpha,
            **gap,
        )
        for model, (gap, estimate) in zip(models, gaps, strict=True)
    )


test_exposure.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


# By name: the title, and 1 if trained text has more of it, -1 if less.
MEASURES: Mapping[str, tuple[str, int]] = {
    "loss": ("Loss", -1),
    "min_k": ("Min-K%", 1),
    "min_k_plus": ("Min-K%++", 1),
}


@dataclass(frozen=True, slots=True)
class TextExposure:
    """One measure of one model at a wave: means by arm and their gap, averaged over strata, in nats
    (``min_k_plus``: in standard deviations); one-sided p in the direction of exposure, and that
    adjusted over all models and measures of the wave. ``interval`` is two-sided 95 %, None
    where the variance cannot be estimated."""

    wave: int
    model: str
    measure: str
    public: float
    private: float
    gap: float
    interval: tuple[float, float] | None
    p: float
    p_adjusted: float
    n_public: int
    n_private: int
    strata: int
    p_floor: float = 0.0
    exploratory: bool = True  # always


Column = tuple[str, str]  # model, measure


def test_texts(
    plan: Plan,
    columns: Mapping[Column, Sequence[float]],
    stratum: Ints,
    public: Bools,
    *,
    wave: int,
    registration: str,
) -> tuple[TextExposure, ...]:
    """The test of the measures that models have of every text, each (n,). Raises AnalysisError for
    holes, and for a stratum with one arm only."""
    if not columns:
        return ()
    values = np.array(list(columns.values()), dtype=np.float64).T
    if not np.isfinite(values).all():
        raise AnalysisError(f"wave {wave}: a measure of texts is missing or is no number")
    if one_armed(values[:, 0], stratum, public):
        raise AnalysisError(f"wave {wave}: a stratum has texts of one arm only")
    signs = np.array([float(MEASURES[measure][1]) for _, measure in columns])
    seed = permutation_seed(registration, "S1", "texts", str(wave))
    gaps = compare_arms(plan, values, signs, stratum, public, seed)
    return tuple(
        TextExposure(
            wave=wave,
            model=model,
            measure=measure,
            interval=None if estimate.se is None else estimate.interval,
            **gap,
        )
        for (model, measure), (gap, estimate) in zip(columns, gaps, strict=True)
    )


test_texts.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's

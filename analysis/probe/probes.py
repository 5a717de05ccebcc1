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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
class ArmGap:
    """One column of values of one model at a wave, by arm: means over strata, their gap with a
    two-sided 95 % interval (if the variance cannot be estimated: that of the scale, or None for
    texts), and one-sided p-values, adjusted over the columns that were tested together."""

    wave: int
    model: str
    public: float
    private: float
    gap: float
    interval: tuple[float, float] | None
    p: float
    p_adjusted: float
    n_public: int
    n_private: int
    strata: int
    p_floor: float = 0.0  # the least p that the permutations can show


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure(ArmGap):
    """The probes of one model, adjusted over the wave's models. ``exposed``: adjusted p at or below
    ``alpha``, the look's."""

    alpha: float
    exposed: bool


# By name: the title, and 1 if trained text has more of it, -1 if less.
MEASURES: Mapping[str, tuple[str, int]] = {
    "loss": ("Loss", -1),
    "min_k": ("Min-K%", 1),
    "min_k_plus": ("Min-K%++", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExposure(ArmGap):
    """One measure of one model, in nats (``min_k_plus``: in standard deviations), tested in the
    direction of exposure and adjusted over all models and measures of the wave."""

    measure: str
    exploratory: bool = True  # always


Columns = Mapping[tuple[str, str], Sequence[float]]  # values (n,) by model and measure


def test_exposure(
    plan: Plan, columns: Columns, stratum: Ints, public: Bools, *, wave: int, registration: str
) -> tuple[Exposure, ...]:
    """The test of some models' scores at a wave, each (n,): a model whose probes are not complete
    is not tested. Raises AnalysisError for holes, and for a stratum with one arm only."""
    seed, alpha = permutation_seed(registration, "S1", "exposure", str(wave)), look_alpha(plan)
    rows = _compare_arms(plan, columns, stratum, public, wave, seed)
    return tuple(
        Exposure(**row, alpha=alpha, exposed=row["p_adjusted"] <= alpha) for row, _ in rows
    )


def test_texts(
    plan: Plan, columns: Columns, stratum: Ints, public: Bools, *, wave: int, registration: str
) -> tuple[TextExposure, ...]:
    """The test of the measures that models have of every text, each (n,). Raises AnalysisError for
    holes, and for a stratum with one arm only."""
    seed = permutation_seed(registration, "S1", "texts", str(wave))
    rows = _compare_arms(plan, columns, stratum, public, wave, seed)
    return tuple(TextExposure(**row, measure=measure) for row, measure in rows)


test_exposure.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's
test_texts.__test__ = False  # type: ignore[attr-defined]


def _compare_arms(
    plan: Plan, columns: Columns, stratum: Ints, public: Bools, wave: int, seed: int
) -> Iterator[tuple[dict[str, Any], str]]:
    """The stratified permutation test of each column, and its measure: of public above private, or
    below for a measure that trained text has less of."""
    if not columns:
        return
    values = np.array(list(columns.values()), dtype=np.float64).T
    if not np.isfinite(values).all():
        raise AnalysisError(f"wave {wave}: a probe is missing or is no number: complete them first")
    if one_armed(values[:, 0], stratum, public):
        raise AnalysisError(f"wave {wave}: a stratum was probed in one arm only")
    signs = [MEASURES[measure][1] if measure in MEASURES else 1 for _, measure in columns]
    signed = (values * signs)[:, :, None]
    statistics = max_t(permute_gaps(signed, stratum, public, **plan_draws(plan, seed)))
    p, adjusted = p_values(statistics).tolist(), westfall_young(statistics).tolist()
    strata = np.unique(stratum)

    def mean(column: Floats, arm: Bools) -> float:
        return float(np.mean([column[arm & (stratum == h)].mean() for h in strata]))

    for place, (model, measure) in enumerate(columns):
        column = values[:, place]
        estimate = estimate_gap(column, stratum, public)
        row = {
            "wave": wave,
            "model": model,
            "public": mean(column, public),
            "private": mean(column, ~public),
            "gap": estimate.gap,
            "interval": None if estimate.se is None and measure in MEASURES else estimate.interval,
            "p": p[place],
            "p_adjusted": adjusted[place],
            "n_public": estimate.n_public,
            "n_private": estimate.n_private,
            "strata": len(strata),
            "p_floor": p_floor(statistics),
        }
        yield row, measure

"""How likely models find public text and private: loss, Min-K% and Min-K%++ by arm. Exploratory.

The measures are those of one text each (Yeom et al. 2018; Shi et al. 2024; Zhang et al. 2024). Who
was trained on the public texts has a lower loss and higher scores on them: the gap, public minus
private, is tested one-sidedly in that direction, by the stratified permutation test of P1 on each
measure alone. No verdict and no other test hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats import (
    estimate_gap,
    max_t,
    p_values,
    permutation_seed,
    permute_gaps,
    westfall_young,
)
from registry.ledger import Plan

# By name: what it is called, and whether trained text has more of it or less.
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
    exploratory: bool = True  # always


Column = tuple[str, str]  # model, measure


def test_texts(
    plan: Plan,
    columns: Mapping[Column, Sequence[float]],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
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
    for h in np.unique(stratum):
        if len(np.unique(public[stratum == h])) < 2:
            raise AnalysisError(f"wave {wave}: a stratum has texts of one arm only")
    signs = np.array([MEASURES[measure][1] for _, measure in columns])
    statistics = max_t(
        permute_gaps(
            (values * signs)[:, :, None], stratum, public,
            permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
            seed=permutation_seed(registration, "S1", "texts", str(wave)),
        )
    )  # fmt: skip
    p, adjusted = p_values(statistics), westfall_young(statistics)
    return tuple(
        _row(column, values[:, c], stratum, public, wave, float(p[c]), float(adjusted[c]))
        for c, column in enumerate(columns)
    )


test_texts.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


def _row(
    column: Column,
    values: NDArray[np.float64],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    wave: int,
    p: float,
    adjusted: float,
) -> TextExposure:
    found = estimate_gap(values, stratum, public)
    strata = np.unique(stratum)

    def mean(arm: NDArray[np.bool_]) -> float:
        return float(np.mean([values[arm & (stratum == h)].mean() for h in strata]))

    return TextExposure(
        wave, *column, mean(public), mean(~public), found.gap,
        None if found.se is None else found.interval, p, adjusted,
        found.n_public, found.n_private, len(strata),
    )  # fmt: skip

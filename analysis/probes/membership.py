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
from analysis.probes.closed_book import compare_arms
from analysis.stats import permutation_seed
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
    signs = np.array([float(MEASURES[measure][1]) for _, measure in columns])
    seed = permutation_seed(registration, "S1", "texts", str(wave))
    gaps = compare_arms(plan, values, signs, stratum, public, seed)
    return tuple(
        TextExposure(
            wave=wave,
            model=model,
            measure=measure,
            public=gap.public,
            private=gap.private,
            gap=gap.estimate.gap,
            interval=None if gap.estimate.se is None else gap.estimate.interval,
            p=gap.p,
            p_adjusted=gap.p_adjusted,
            n_public=gap.estimate.n_public,
            n_private=gap.estimate.n_private,
            strata=len(np.unique(stratum)),
        )
        for (model, measure), gap in zip(columns, gaps, strict=True)
    )


test_texts.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's

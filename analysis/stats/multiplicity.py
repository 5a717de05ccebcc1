"""Adjusting p-values over the models of a look, so that the family-wise error holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.permutation import TOLERANCE, Statistics, rate


def westfall_young(statistics: Statistics) -> NDArray[np.float64]:
    """Step-down max-T adjusted p by model (Westfall and Young 1993, algorithm 4.1): each model,
    from the largest statistic down, against the maximum over itself and those below it."""
    order = np.argsort(-statistics.observed, kind="stable")
    permuted = statistics.permuted[:, order]
    below = np.maximum.accumulate(permuted[:, ::-1], axis=1)[:, ::-1]
    hits = (below >= statistics.observed[order] - TOLERANCE).sum(axis=0)
    stepped = np.maximum.accumulate(rate(hits, len(permuted), statistics.exact))
    return _restore(stepped, order)


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Step-down Bonferroni adjusted p (Holm 1979).

    Not statsmodels' ``multipletests``, which collects all garbage at every call: power and
    calibration call this once a simulated study."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restore(np.minimum(stepped, 1.0), order)


def _restore(values: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    restored = np.empty_like(values)
    restored[order] = values
    return restored

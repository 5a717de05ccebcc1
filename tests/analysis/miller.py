"""Means of clustered scores and samples by formula, after Miller (2024), "Adding Error Bars to
Evals", arXiv 2411.00640: outside references for seed means, never a test of ours, since CR1 with
z is too narrow below some 40 clusters (spec/statistics.md, S3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean with its standard error as if scores were independent, and by cluster."""

    mean: float
    naive: float
    clustered: float
    clusters: int


def cluster_mean(scores: NDArray[np.float64], cluster: NDArray[np.int64]) -> ClusteredMean:
    """Miller's section 2.2: naive² = Σ (s − mean)² / n²; clustered² adds the products of different
    scores of one cluster, and so is Σ_c (Σ_i (s − mean))² / n². Raises AnalysisError for no
    scores."""
    if not len(scores):
        raise AnalysisError("no scores: they have no mean")
    mean, codes = float(scores.mean()), np.unique(cluster, return_inverse=True)[1]
    apart = scores - mean
    sums = np.bincount(codes, weights=apart)
    n = len(scores)
    return ClusteredMean(
        mean, math.sqrt(float(apart @ apart)) / n, math.sqrt(float(sums @ sums)) / n, len(sums)
    )


def questions_needed(
    difference: float,
    between: float,
    *,
    within: tuple[float, float] = (0.0, 0.0),
    runs: tuple[int, int] = (1, 1),
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Miller's equation 9: how many questions show a difference of two models on the same ones.

    n = (z_{alpha/2} + z_{1−power})² (w² + s_A²/K_A + s_B²/K_B) / difference², with w² =
    ``between`` the variance over questions of the paired difference of their means, and s² =
    ``within`` that of a run on one question, of which each model has K = ``runs``.
    """
    from scipy.special import ndtri

    if not difference > 0:
        raise AnalysisError(f"difference {difference}: one above 0 is wanted")
    z = float(ndtri(1 - alpha / 2) + ndtri(power))
    variance = between + sum(s / k for s, k in zip(within, runs, strict=True))
    return math.ceil(z**2 * variance / difference**2 - 1e-9)

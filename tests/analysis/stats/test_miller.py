"""Means of clustered scores and samples by formula, after Miller (2024), "Adding Error Bars to
Evals", arXiv 2411.00640, against his numbers and statsmodels: outside references for seed means,
never a test of the plan, since CR1 with z is too narrow below some 40 clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri

from analysis.errors import AnalysisError

pytestmark = pytest.mark.filterwarnings("error")


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
    if not difference > 0:
        raise AnalysisError(f"difference {difference}: one above 0 is wanted")
    z = float(ndtri(1 - alpha / 2) + ndtri(power))
    variance = between + sum(s / k for s, k in zip(within, runs, strict=True))
    return math.ceil(z**2 * variance / difference**2 - 1e-9)


def test_the_reference():
    found = cluster_mean(np.array([1.0, 1, 1, 0, 0, 0, 1, 1, 0]), np.repeat([4, 7, 9], 3))
    assert found.naive == pytest.approx(0.165635, abs=5e-7)
    assert found.clustered == pytest.approx(0.240027, abs=5e-7)
    assert found.clusters == 3


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0])), min_size=4))
def test_it_is_statsmodels_cluster_covariance(rows):
    cluster, scores = (np.array(column) for column in zip(*rows, strict=True))
    found = cluster_mean(scores, cluster)
    if len(set(cluster.tolist())) > 1 and found.clustered > 1e-9:
        fit = sm.OLS(scores, np.ones(len(scores))).fit(
            cov_type="cluster", cov_kwds={"groups": cluster, "use_correction": False}
        )
        assert found.clustered == pytest.approx(fit.bse[0])
        assert found.mean == pytest.approx(fit.params[0])


def test_alone_in_their_clusters_scores_are_independent():
    found = cluster_mean(np.array([0.2, 0.9, 0.4]), np.arange(3))
    assert found.clustered == pytest.approx(found.naive)
    with pytest.raises(AnalysisError):
        cluster_mean(np.empty(0), np.empty(0, int))


def test_questions_needed():
    assert questions_needed(0.03, 1 / 9) == 969
    assert questions_needed(0.03, 1 / 9, within=(0.1, 0.1), runs=(10, 10)) > 969
    with pytest.raises(AnalysisError, match="above 0"):
        questions_needed(0.0, 1 / 9)

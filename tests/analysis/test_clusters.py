"""Miller's formulas against his numbers and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from tests.analysis.miller import cluster_mean, questions_needed

pytestmark = pytest.mark.filterwarnings("error")


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

"""Boundaries against published numbers (spec/statistics.md, §6) and the multivariate normal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from analysis.errors import AnalysisError
from benchmarks.statistics.boundaries import (
    crossing,
    equal_information,
    inflation,
    lan_demets,
    obf_spending,
    obrien_fleming,
    pocock,
    spending_boundary,
)

pytestmark = pytest.mark.filterwarnings("error")

FIVE = equal_information(5)


def test_obrien_fleming_of_five_looks():
    expected = [4.56174, 3.22564, 2.63372, 2.28087, 2.04007]
    np.testing.assert_allclose(obrien_fleming(5), expected, atol=6e-6)


def test_pocock_of_five_looks():
    """The specification's 2.41317 is within what its own integration is good for (2e-6 in the
    probability, 3e-5 in z); ours does not move from 2.4131803 with more nodes."""
    np.testing.assert_allclose(pocock(5), [2.41317] * 5, atol=1.5e-5)
    assert crossing(np.full(5, 2.4131803), FIVE)[-1] == pytest.approx(0.025, abs=1e-8)


def test_lan_demets_of_five_looks():
    spent = obf_spending(FIVE)
    np.testing.assert_allclose(spent[1:], [0.00039, 0.00381, 0.01221, 0.025], atol=6e-6)
    expected = [4.87688, 3.35701, 2.68028, 2.28982, 2.03103]
    np.testing.assert_allclose(lan_demets(FIVE), expected, atol=6e-6)
    np.testing.assert_allclose(crossing(lan_demets(FIVE), FIVE), spent, atol=1e-9)


@pytest.mark.parametrize(("bounds", "expected"), [(obrien_fleming(5), 1.0265), (pocock(5), 1.2066)])
def test_what_looking_costs_in_sample(bounds, expected):
    assert inflation(bounds, FIVE) == pytest.approx(expected, abs=6e-5)


def test_one_look_is_no_sequence():
    assert obrien_fleming(1) == pytest.approx([norm.ppf(0.975)])
    assert inflation(pocock(1), [1.0]) == pytest.approx(1.0)


@pytest.mark.parametrize("drift", [0.0, 2.0, -1.0])
def test_crossing_is_the_multivariate_normal(drift):
    information, bounds = np.array([0.2, 0.5, 1.0]), np.array([1.5, 2.5, 1.9])
    covariance = np.sqrt(np.minimum.outer(information, information)
                         / np.maximum.outer(information, information))  # fmt: skip
    crossed = crossing(bounds, information, drift)
    for k in (1, 2, 3):
        # scipy integrates at random where k = 3; its error is some 1e-6 at these many points.
        normal = multivariate_normal(
            drift * np.sqrt(information[:k]), covariance[:k, :k],
            seed=k, maxpts=200_000, abseps=1e-7,
        )  # fmt: skip
        assert crossed[k - 1] == pytest.approx(1 - normal.cdf(bounds[:k]), abs=2e-6)


def test_a_look_that_spends_nothing_has_no_boundary():
    bounds = spending_boundary([0.3, 0.6, 1.0], [0.0, 0.01, 0.025])
    assert bounds[0] == np.inf
    assert bounds[1] == pytest.approx(norm.isf(0.01))
    assert crossing(bounds, [0.3, 0.6, 1.0])[-1] == pytest.approx(0.025, abs=1e-9)


@pytest.mark.parametrize("information", [[], [0.0, 1.0], [0.5, 0.5], [0.5, 1.1]])
def test_information_must_rise_to_one(information):
    with pytest.raises(AnalysisError, match="must rise"):
        crossing(np.full(len(information), 2.0), information)


def test_spending_must_not_fall():
    with pytest.raises(AnalysisError, match="not fall"):
        spending_boundary([0.5, 1.0], [0.02, 0.01])

"""The two-sided test by its definition."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.stats.permutation import fold, max_t, p_values, permute_gaps, two_sided_p

pytestmark = pytest.mark.filterwarnings("error")


def test_four_against_four_apart_is_two_in_seventy_either_way():
    values = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1])[:, None, None]
    for public in (np.arange(8) < 4, np.arange(8) >= 4):
        gaps = permute_gaps(
            values, np.zeros(8, int), public, permutations=1, enumerate_up_to=70, seed=0
        )
        assert two_sided_p(gaps)[0] == pytest.approx(2 / 70)


def test_it_is_the_larger_of_both_signs_over_outcomes():
    rng = np.random.default_rng(2)
    values, stratum = rng.normal(0, 1, (40, 3, 2)), np.repeat([0, 1], 20)
    public = np.tile([True, False], 20)
    gaps = permute_gaps(values, stratum, public, permutations=199, enumerate_up_to=0, seed=4)
    up = max_t(gaps)
    down = max_t(
        permute_gaps(-values, stratum, public, permutations=199, enumerate_up_to=0, seed=4)
    )
    both = fold(gaps)
    np.testing.assert_allclose(both.observed, np.maximum(up.observed, down.observed))
    np.testing.assert_allclose(both.permuted, np.maximum(up.permuted, down.permuted))
    assert (two_sided_p(gaps) >= np.minimum(p_values(up), p_values(down))).all()

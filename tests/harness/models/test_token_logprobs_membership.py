"""Loss, Min-K% and Min-K%++ by hand and by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.token_logprobs import (
    TokenScores,
    mean_of_least,
    membership_scores,
    moments_of,
    standardise,
)


def test_by_hand() -> None:
    # Ten tokens; the least likely fifth are −9 and −7.
    logprobs = (-1.0, -9.0, -2.0, -0.5, -7.0, -1.5, -3.0, -0.5, -2.5, -3.0)
    means, deviations = (-2.0,) * 10, (0.5, 2.0, *(1.0,) * 8)
    found = membership_scores(TokenScores(logprobs, means, deviations))
    assert (found.tokens, found.loss, found.min_k) == (10, 3.0, -8.0)
    # Standardised: 2, −3.5, 0, 1.5, −5, 0.5, −1, 1.5, −0.5, −1; the least two are −5 and −3.5.
    assert found.min_k_plus == pytest.approx(-4.25)
    assert membership_scores(TokenScores(logprobs)).min_k_plus is None  # missing, not zero


def test_moments_of_a_distribution_by_hand() -> None:
    # p = 1/2, 1/4, 1/4: mean of log p −1.5 log 2, variance (log 2)² / 4.
    found = moments_of(np.log([0.5, 0.25, 0.25]))
    assert found == pytest.approx((-1.5 * math.log(2), math.log(2) / 2))
    assert moments_of(np.log([0.5, 0.25])) is None  # a part of it is told
    assert moments_of(np.zeros(2)) is None  # more than all of it
    mean, deviation = moments_of(np.full(8, -math.log(8))) or (0, 0)
    assert (mean, deviation) == pytest.approx((-math.log(8), 0), abs=1e-7)
    assert moments_of(np.array([0.0, -1e4])) == (0, 0)
    assert standardise(np.zeros(1), np.zeros(1), np.zeros(1)) == [0]


@given(st.lists(st.floats(-30, 0), min_size=1, max_size=60), st.sampled_from([0.1, 0.2, 0.5, 1.0]))
def test_the_least_are_those_of_a_sort(values: list[float], share: float) -> None:
    count = max(1, int(share * len(values) + 1e-9))
    wanted = sum(sorted(values)[:count]) / count
    assert mean_of_least(np.array(values), share) == pytest.approx(wanted)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=40))
def test_moments_are_those_of_draws_weighted_by_their_probability(logits: list[float]) -> None:
    weights = [math.exp(each) for each in logits]
    p = [each / sum(weights) for each in weights]
    mean = sum(each * math.log(each) for each in p)
    variance = sum(each * math.log(each) ** 2 for each in p) - mean**2
    found = moments_of(np.log(p))
    assert found is not None
    assert found[0] == pytest.approx(mean)
    assert found[1] ** 2 == pytest.approx(variance, abs=1e-9)

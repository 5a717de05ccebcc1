"""The e-process against quadrature and its definition, and under a null."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from analysis.errors import AnalysisError
from benchmarks.statistics.eprocess import RHO, log_mixture, onset_process

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(("s", "v"), [(0.0, 0.0), (40.0, 500.0), (-40.0, 900.0), (120.0, 2000.0)])
def test_the_mixture_is_its_integral(s, v):
    def bet(x):
        prior = 2 * math.exp(-RHO * x * x / 2) * math.sqrt(RHO / (2 * math.pi))
        return prior * math.exp(x * s - x * x * v / 2)

    assert math.exp(log_mixture(s, v)) == pytest.approx(quad(bet, 0, 1)[0], rel=1e-7)


def test_no_information_is_no_bet():
    assert log_mixture(0.0, 0.0) == pytest.approx(0.0, abs=1e-15)
    process = onset_process([0.2, 0.3], [math.nan, 0.0], alpha=0.05, looks_most=4)
    assert process.values == pytest.approx((1.0, 1.0))
    assert (
        onset_process([0.2, 0.9], [0.04, 0.05], alpha=0.05, looks_most=4).values[1]
        < (onset_process([0.2, 0.2], [0.04, 0.03], alpha=0.05, looks_most=4).values[1])
    )


def test_the_onset_process_is_its_definition():
    gap, se, most = [0.01, 0.04, 0.09], [0.05, 0.035, 0.03], 8
    s = [0.0] + [g / e**2 for g, e in zip(gap, se, strict=True)]
    i = [0.0] + [1 / e**2 for e in se]
    process = onset_process(gap, se, alpha=0.05, looks_most=most)
    for k in (1, 2, 3):
        bets = sum(math.exp(log_mixture(s[k] - s[j], i[k] - i[j])) for j in range(k))
        assert process.values[k - 1] == pytest.approx((bets + most - k) / most)


def test_it_rejects_at_the_first_look_that_reaches_one_over_alpha():
    process = onset_process([0.0, 0.05, 0.1, 0.1], [0.05, 0.03, 0.02, 0.018], alpha=0.05,
                            looks_most=8)  # fmt: skip
    first = next(k for k, value in enumerate(process.values, start=1) if value >= 20)
    assert process.rejected_at == first
    assert onset_process([0.5], [0.001], alpha=0.05, looks_most=8).rejected_at == 1  # no overflow


def test_it_seldom_rejects_under_the_null_and_finds_a_late_gap():
    rng, runs = np.random.default_rng(12), 1500
    se = 0.25 / np.sqrt(64 * np.arange(1, 9))
    found = {0.0: 0, 0.1: 0}
    for late in found:
        noise = rng.normal(0, 0.25 / 8, (runs, 8)) + late * (np.arange(8) >= 3)
        gaps = noise.cumsum(axis=1) / np.arange(1, 9)
        found[late] = sum(
            onset_process(g, se, alpha=0.05, looks_most=8).rejected_at is not None
            for g in gaps.tolist()
        )
    assert found[0.0] / runs <= 0.05
    assert found[0.1] / runs > 0.95


def test_more_looks_than_registered_are_refused():
    with pytest.raises(AnalysisError, match="2 gaps and 2 SEs, where 1 are the most"):
        onset_process([0.0, 0.0], [0.1, 0.1], alpha=0.05, looks_most=1)
    with pytest.raises(AnalysisError, match="alpha"):
        onset_process([0.0], [0.1], alpha=0.0, looks_most=1)

"""The measurement of leaks that only memory can use: its leak and its variance components."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memory import measure_markers, outcomes_of, variance_of
from generators.catalog import INSTALLED


@pytest.mark.parametrize("name", ["compute_average", "order_statistics"])
def test_a_leak_gives_full_gate_free_credit_and_takes_nothing(name: str) -> None:
    honest, leaked = map(np.array, outcomes_of(INSTALLED.family(name), "easy", 0))
    assert honest.shape == (4, 3, 3)  # solvers, runs, outcomes
    assert (leaked[..., 2] == 1).all()
    assert (leaked >= honest).all()
    assert (honest[-1, :, 2] < 1).any()


def test_components_are_those_of_the_scores() -> None:
    stream = np.random.default_rng(4)
    shared = 0.3 * stream.standard_normal((4000, 1, 1))
    own = 0.4 * stream.standard_normal((4000, 4, 1))
    runs = 0.5 * stream.standard_normal((4000, 4, 3)) + np.array([0.9, 0.7, 0.5, 0.3])[:, None]
    found = variance_of(shared + own + runs)
    assert found["sd"] == pytest.approx(0.5**0.5, abs=0.01)
    assert found["icc"] == pytest.approx(0.09 / 0.5, abs=0.02)
    assert found["own"] == pytest.approx(0.16 / 0.5, abs=0.02)


def test_markers_that_a_model_recalls_are_found() -> None:
    found = measure_markers(3)
    assert (found["found"], found["false"]) == (1, 0)

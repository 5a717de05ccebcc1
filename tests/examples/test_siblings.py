"""The estimate of τ_w in examples/levels, on scores whose spread is known."""

from __future__ import annotations

import numpy as np
import pytest

from examples.levels.siblings import tau_squared


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_the_spread_between_siblings_is_found_without_the_noise_of_instances(tau: float) -> None:
    draws = np.random.default_rng(7)
    centres = 0.5 + tau * draws.standard_normal((400, 2))
    pairs = [tuple((c + 0.3 * draws.standard_normal(30)).tolist() for c in two) for two in centres]
    square, error = tau_squared(pairs)
    assert abs(square - tau**2) < 3 * error
    assert error < 0.001

"""Two-sided tests from one-sided permutations: for controls, where either sign is a fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.resample import Permuted, Statistics, max_t, p_values


def fold(gaps: Permuted) -> Statistics:
    """M = max over outcomes of |gap| / SD, the SD as in ``max_t``: max-T over each outcome and
    its negative."""
    return max_t(Permuted(_both_signs(gaps.observed), _both_signs(gaps.permuted), gaps.exact))


def two_sided_p(gaps: Permuted) -> NDArray[np.float64]:
    """Two-sided p by model, over all outcomes at once. 1 where no outcome has any spread."""
    return p_values(fold(gaps))


def _both_signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([values, -values], axis=-1)

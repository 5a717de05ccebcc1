"""The GEE of statsmodels, as a reference."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray

from analysis.stats.mixed_models import GeeFit


def fit_gee(
    response: NDArray[np.float64],
    design: NDArray[np.float64],
    cluster: NDArray[np.int64],
    *,
    cov_type: str = "bias_reduced",
) -> GeeFit:
    """A binomial GEE with independence as the working correlation."""
    order = np.argsort(cluster, kind="stable")
    y, x = response[order], design[order]
    start = sm.GLM(y, x, family=sm.families.Binomial()).fit().params  # the same, far quicker
    model = sm.GEE(y, x, groups=cluster[order], family=sm.families.Binomial())
    result = model.fit(cov_type=cov_type, start_params=start)
    return GeeFit(np.asarray(result.params), np.asarray(result.cov_params()), ())

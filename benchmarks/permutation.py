"""Permutation test of 20,000 permutations on 2 x 512 seeds and two outcomes: prints one JSON line.

In the same run scipy.stats.permutation_test computes the same statistic (the larger of the two
standardised gaps, in one stratum) with fewer resamples; its time is scaled to the same number, and
both are stated. scipy is given the standard deviations, which ours works out for itself.
"""

from __future__ import annotations

import json
import resource
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test

from analysis.resample import max_t, p_values, permutation_seed, permute_gaps

ARM, PERMUTATIONS, SCIPY_RESAMPLES = 512, 20_000, 1_000
TARGET_SECONDS = 0.5

Floats = NDArray[np.float64]


def main() -> None:
    values = np.random.default_rng(1).random((2 * ARM, 1, 2))
    time_ours(values, 1, 2_000)  # imports and caches
    before = peak_mb()
    seconds, p, sd = time_ours(values, 1, PERMUTATIONS)
    stratified, _, _ = time_ours(values, 4, PERMUTATIONS)
    after = peak_mb()
    theirs, scipy_p = time_scipy(values[:, 0], sd)
    scaled = theirs * PERMUTATIONS / SCIPY_RESAMPLES
    line: dict[str, Any] = {
        "benchmark": "permutation",
        "seeds": [ARM, ARM],
        "outcomes": 2,
        "permutations": PERMUTATIONS,
        "seconds_1_stratum": round(seconds, 4),
        "seconds_4_strata": round(stratified, 4),
        "target_seconds": TARGET_SECONDS,
        "met": max(seconds, stratified) <= TARGET_SECONDS,
        "peak_mb_growth": round(after - before, 1),
        "p": p,
        "scipy_resamples": SCIPY_RESAMPLES,
        "scipy_seconds": round(theirs, 4),
        "scipy_seconds_scaled": round(scaled, 4),
        "scipy_p": scipy_p,
        "times_faster_than_scipy": round(scaled / seconds, 1),
    }
    print(json.dumps(line))


def time_ours(values: Floats, strata: int, count: int) -> tuple[float, float, Floats]:
    """Seconds, p, and the permutation SD by outcome."""
    stratum = np.repeat(np.arange(strata), len(values) // strata)
    public = np.tile([True, False], len(values) // 2)
    start = time.perf_counter()
    gaps = permute_gaps(
        values,
        stratum,
        public,
        permutations=count,
        enumerate_up_to=0,
        seed=permutation_seed("benchmark", "0"),
    )
    p = float(p_values(max_t(gaps))[0])
    return time.perf_counter() - start, p, gaps.permuted[:, 0].std(axis=0)


def time_scipy(values: Floats, sd: Floats) -> tuple[float, float]:
    """Seconds and p; what scipy permutes are the seeds' places, so that outcomes move together."""

    def statistic(public: Floats, private: Floats, axis: int = -1) -> Floats:
        gap = values[public.astype(int)].mean(axis=-2) - values[private.astype(int)].mean(axis=-2)
        largest: Floats = (gap / sd).max(axis=-1)
        return largest

    places = np.arange(len(values))
    start = time.perf_counter()
    result = permutation_test(
        (places[::2], places[1::2]),
        statistic,
        permutation_type="independent",
        vectorized=True,
        n_resamples=SCIPY_RESAMPLES,
        batch=100,
        alternative="greater",
        rng=np.random.default_rng(1),
    )
    return time.perf_counter() - start, float(result.pvalue)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

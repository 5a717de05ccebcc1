"""The time and memory of the analysis: prints one JSON line.

look
    19,999 permutations of a look as the specification has them at the most: 24 models, 12 strata
    of 128 seeds in each arm (3,072 instances), two outcomes; max-T, p-values and Westfall–Young.
monitoring
    P4 with as many permutations over eight such looks, each with the panel and a tranche of 32.
Times are the least of a few repeats. ``seconds`` are on the clock,
``cpu_seconds`` of all threads; where other work shares the machine, the first are worth little.
``cores`` are those that our threads take.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.stats.permutation import (
    cores,
    max_t,
    p_values,
    permutation_seed,
    permute_gaps,
    westfall_young,
)
from analysis.stats.sequential import LookScores, monitor

MODELS, STRATA, ARM, TRANCHE, LOOKS = 24, 12, 128, 32, 8
PERMUTATIONS, REPEATS = 19_999, 3
LOOK_SECONDS, PEAK_MB = 5.0, 1024.0  # the targets

Floats = NDArray[np.float64]


def main() -> None:
    values = np.random.default_rng(1).random((STRATA * 2 * ARM, MODELS, 2))
    line: dict[str, Any] = {
        "benchmark": "analysis",
        "permutations": PERMUTATIONS,
        "models": MODELS,
        "outcomes": 2,
        "instances": len(values),
        "repeats": REPEATS,
        "cores": cores(),
    }
    line |= {"look": measure_look(values), "monitoring": measure_monitoring()}
    line |= {"peak_mb": round(peak_mb(), 1)}
    line["met"] = {
        "look_5_s": line["look"]["seconds"] <= LOOK_SECONDS,
        "look_1_gb": line["peak_mb"] <= PEAK_MB,
    }
    print(json.dumps(line))


def measure_look(values: Floats) -> dict[str, Any]:
    seconds, cpu = best(lambda: run_look(values, STRATA))
    return {"strata": STRATA, "seconds": seconds, "cpu_seconds": cpu}


def run_look(values: Floats, strata: int) -> Floats:
    """Adjusted p by model."""
    stratum = np.repeat(np.arange(strata), len(values) // strata)
    public = np.tile([True, False], len(values) // 2)
    gaps = permute_gaps(
        values,
        stratum,
        public,
        permutations=PERMUTATIONS,
        enumerate_up_to=0,
        seed=permutation_seed("benchmark", "0"),
    )
    statistics = max_t(gaps)
    p_values(statistics)
    return westfall_young(statistics)


def measure_monitoring() -> dict[str, Any]:
    looks = make_looks()
    seconds, cpu = best(
        lambda: monitor(looks, alpha=0.025, looks_planned=LOOKS, permutations=PERMUTATIONS, seed=1)
    )
    units = len({unit for look in looks for unit in look.unit.tolist()})
    return {"looks": LOOKS, "units": units, "seconds": seconds, "cpu_seconds": cpu}


def make_looks() -> list[LookScores]:
    rng = np.random.default_rng(3)
    looks = []
    for look in range(1, LOOKS + 1):
        parts = [(0, 2 * ARM), (look, 2 * TRANCHE)]
        stratum = np.concatenate([np.repeat(np.arange(STRATA), size) for _, size in parts])
        tranche = np.concatenate([np.full(STRATA * size, t) for t, size in parts])
        unit = np.concatenate([np.arange(STRATA * size) + 100_000 * t for t, size in parts])
        public = np.arange(len(unit)) % 2 == 0
        looks.append(LookScores(unit, stratum, tranche, public, rng.random(len(unit))))
    return looks


def best(work: Callable[[], object]) -> tuple[float, float]:
    """The least seconds on the clock and of the processor."""
    times = [clock(work) for _ in range(REPEATS)]
    return round(min(a for a, _ in times), 3), round(min(b for _, b in times), 3)


def clock(work: Callable[[], object]) -> tuple[float, float]:
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

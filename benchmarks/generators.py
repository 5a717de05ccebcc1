"""Instances per CPU-second of every family at every difficulty, and the peak memory of a fresh
process that makes them: prints one JSON line.

    python -m benchmarks.generators

from the repository's folder: by its path a benchmark would find this file for the package.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

if __name__ == "generators":
    raise ImportError(
        "this is benchmarks/generators.py, not the package: run a benchmark from the repository's "
        "folder, as python -m benchmarks.NAME"
    )

from generators.catalog import INSTALLED
from generators.task import DIFFICULTIES
from generators.validation.validate import public_seeds

CPU_SECONDS = 2.0
MOST = 1000
HARD_TOGETHER = 6.0  # CPU seconds, the four of physics
# CPU seconds for one instance at easy, medium and hard.
_BUDGETS = {
    "count_circles@3": (0.06, 0.12, 0.3),
    "cepheid_calibration@3": (0.2, 1.5, 3.0),
    "hubble_constant@3": (0.1, 0.4, 1.2),
    "invariant_mass_reconstruction@3": (0.2, 0.4, 1.0),
    "lissajous_figures@3": (0.4, 0.8, 2.8),
}
BUDGET = {
    f"{entry}/{difficulty}": budget
    for entry, budgets in _BUDGETS.items()
    for difficulty, budget in zip(DIFFICULTIES, budgets, strict=True)
}


def main() -> None:
    strata = [
        f"{entry}/{difficulty}" for entry in INSTALLED.entries() for difficulty in DIFFICULTIES
    ]
    with ProcessPoolExecutor(1, mp_context=_SPAWN, max_tasks_per_child=1) as fresh:
        measured = dict(zip(strata, fresh.map(measure, strata), strict=True))
    hard = sum(
        row["cpu_ms_each"]
        for stratum, row in measured.items()
        if stratum.endswith("/hard")
        and "physics" in type(INSTALLED.family(stratum.split("/")[0])).__module__
    )
    print(
        json.dumps(
            {
                "benchmark": "generators",
                "strata": measured,
                "physics_hard_together": {
                    "cpu_ms": round(hard),
                    "target_ms": round(1000 * HARD_TOGETHER),
                    "met": hard <= 1000 * HARD_TOGETHER,
                },
            }
        )
    )


def measure(stratum: str) -> dict[str, Any]:
    """Make instances for a while, after one that pays for the imports."""
    entry, difficulty = stratum.split("/")
    family = INSTALLED.family(entry)
    first, *seeds = public_seeds(MOST + 1)
    family.generate(difficulty, first)
    start, made, size = time.process_time(), 0, 0
    while (spent := time.process_time() - start) < CPU_SECONDS and made < MOST:
        brief = family.generate(difficulty, seeds[made]).brief
        size += sum(len(asset.data) for asset in brief.assets)
        made += 1
    outcome: dict[str, Any] = {
        "instances_per_cpu_second": round(made / spent, 1),
        "cpu_ms_each": round(1000 * spent / made, 2),
        "input_bytes_each": round(size / made),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    if stratum in BUDGET:
        outcome |= {"target_ms": 1000 * BUDGET[stratum], "met": spent / made <= BUDGET[stratum]}
    return outcome


_SPAWN = multiprocessing.get_context("spawn")

if __name__ == "__main__":
    main()

"""The time and memory of the analysis: prints one JSON line.

look
    19,999 permutations of a look as the specification has them at the most: 24 models, 12 strata
    of 128 seeds in each arm (3,072 instances), two outcomes; max-T, p-values and Westfall–Young.
    Once as they are, once with one score in a hundred missing.
monitoring
    P4 with as many permutations over eight such looks, each with the panel and a tranche of 32.
scipy
    scipy.stats.permutation_test on the same statistic of the same look, in the same run. It knows
    no strata, so it is called once a stratum and the null distributions of the gaps are averaged
    over strata, then standardised as ours are. It is tried twice: with the scores as its samples,
    which it permutes together, and with their places, by which the scores are looked up; the
    quicker way counts. It gets fewer resamples, and its time is scaled to as many as ours.
    The target of 20 times is of seconds on the clock of 2 cores, which is what a user waits for:
    ours takes both, scipy's function has one thread. The ratio in seconds of the processor, where
    one core is worth one core, stands beside. Both are of the least seconds of each.
    ``small`` is the same for one model, one stratum and 2 x 512 instances.

Times are the least of a few repeats, ours and scipy's by turns. ``seconds`` are on the clock,
``cpu_seconds`` of all threads; where other work shares the machine, the first are worth little.
``cores`` are those that our threads take.
"""

from __future__ import annotations

import functools
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test

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
PERMUTATIONS, SCIPY_RESAMPLES, REPEATS, TURNS = 19_999, 200, 3, 5
LOOK_SECONDS, PEAK_MB, TIMES_FASTER = 5.0, 1024.0, 20.0  # the targets

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
    line |= {"scipy": compare(values, STRATA), "scipy_small": compare(values[: 2 * 512, :1], 1)}
    line["met"] = {
        "look_5_s": line["look"]["seconds"] <= LOOK_SECONDS,
        "look_1_gb": line["peak_mb"] <= PEAK_MB,
        "scipy_20_times": line["scipy"]["times_faster"]["seconds"] >= TIMES_FASTER,
    }
    print(json.dumps(line))


def measure_look(values: Floats) -> dict[str, Any]:
    missing = values.copy()
    missing[np.random.default_rng(2).random(values.shape[:2]) < 0.01] = np.nan
    whole, cpu = best(lambda: run_look(values, STRATA))
    holed, holed_cpu = best(lambda: run_look(missing, STRATA))
    return {
        "strata": STRATA,
        "seconds": whole,
        "cpu_seconds": cpu,
        "seconds_with_missing": holed,
        "cpu_seconds_with_missing": holed_cpu,
    }


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


def compare(values: Floats, strata: int) -> dict[str, Any]:
    """Ours and scipy's by turns, on the clock and of the processor."""
    ways: dict[str, Callable[[Floats], Floats]] = {"scores": scipy_scores, "places": scipy_places}
    works: dict[str, Callable[[], Floats]] = {"ours": lambda: run_look(values, strata)}
    works |= {n: functools.partial(run_scipy, values, strata, way) for n, way in ways.items()}
    turns = [{name: clock(work) for name, work in works.items()} for _ in range(TURNS)]
    figures: dict[str, Any] = {
        "instances": len(values),
        "strata": strata,
        "models": values.shape[1],
        "turns": TURNS,
        "scipy_resamples": SCIPY_RESAMPLES,
        "times_faster": {},
    }
    for at, unit in enumerate(("seconds", "cpu_seconds")):
        least = {name: min(turn[name][at] for turn in turns) for name in works}
        scaled = {name: least[name] * PERMUTATIONS / SCIPY_RESAMPLES for name in ways}
        figures[unit] = round(least["ours"], 3)
        figures[f"scipy_{unit}_scaled"] = {name: round(value, 2) for name, value in scaled.items()}
        figures["times_faster"][unit] = round(min(scaled.values()) / least["ours"], 1)
    return figures


def run_scipy(values: Floats, strata: int, way: Callable[[Floats], Floats]) -> Floats:
    """M under permutation (rows, models)."""
    parts = [way(part) for part in np.split(values, strata)]
    gaps = np.mean(parts, axis=0).reshape(SCIPY_RESAMPLES, *values.shape[1:])
    return np.asarray((gaps / gaps.std(axis=0)).max(axis=-1))


def scipy_scores(values: Floats) -> Floats:
    """Gaps under permutation, from the scores of each model and outcome."""
    scores = np.ascontiguousarray(values.reshape(len(values), -1).T)

    def statistic(public: Floats, private: Floats, axis: int = -1) -> Floats:
        return np.asarray(public.mean(axis=axis) - private.mean(axis=axis))

    return resample((scores[..., ::2], scores[..., 1::2]), statistic)


def scipy_places(values: Floats) -> Floats:
    """The same from places, by which scores are looked up."""
    flat = values.reshape(len(values), -1)

    def statistic(public: Floats, private: Floats, axis: int = -1) -> Floats:
        return np.asarray(flat[public].mean(axis=-2) - flat[private].mean(axis=-2))

    places = np.arange(len(values))
    return resample((places[::2], places[1::2]), statistic)


def resample(
    samples: tuple[NDArray[Any], NDArray[Any]], statistic: Callable[..., Floats]
) -> Floats:
    test = permutation_test(
        samples,
        statistic,
        permutation_type="independent",
        vectorized=True,
        n_resamples=SCIPY_RESAMPLES,
        batch=20,
        alternative="greater",
        axis=-1,
        rng=np.random.default_rng(1),
    )
    return np.asarray(test.null_distribution)


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

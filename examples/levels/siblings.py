"""Spread of solvers' scores between siblings (τ_w of docs/levels.md), without a language model.

    python -m examples.levels.siblings [--instances N] [--jobs N] [DRESSING.yaml ...]

The siblings are a family as it is and a dressing of it (by default those of the tests), at the
difficulty `easy`; each draws N instances of its own. The spread is the root mean square over the
pairs of (score of one - score of the other) / √2, the noise what the instances add to it. τ_w² is
the difference of their squares, which may be below zero; its standard error is that over the pairs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from generators.dressings.family import dressed_family
from generators.seed import Seed
from generators.validation.scores import (
    BEYOND_INSTRUCTIONS,
    noisy_scores,
    perturb_answer,
    score_answer,
    solver_answer,
)
from generators.validation.validate import public_seeds

DRESSINGS = Path(__file__).parents[2] / "tests/data/dressings"
ERROR_RATES = (0.0, 0.1, 0.3)  # of scripted agents, as `error_rate` in study.yaml
DIFFICULTY = "easy"

Scores = list[list[float]]  # of each solver, one an instance
Pair = tuple[Scores, Scores]


def measure(path: Path, instances: int) -> Pair:
    """The scores of all solvers on a family, and on a dressing of it."""
    dressed = dressed_family(path.name, path.read_text(encoding="utf-8"))
    seeds = public_seeds(2 * instances)
    return (_scores(dressed.dressing.base, seeds[:instances]), _scores(dressed, seeds[instances:]))


def _scores(family: Any, seeds: Sequence[Seed]) -> Scores:
    rows = []
    for seed in seeds:
        instance = family.generate(DIFFICULTY, seed)
        noisy = list(noisy_scores(family, instance, seed).values())
        solved = solver_answer(family, instance)
        assert solved is not None  # noqa: S101 - every built-in family has a solver
        draws = [seed.child(f"misread {rate}").rng() for rate in ERROR_RATES]
        blocks = [
            perturb_answer(dict(solved.block), rate, stream)
            for rate, stream in zip(ERROR_RATES, draws, strict=True)
        ]
        answers = [replace(solved, block=block, _memory={}) for block in blocks]
        rows.append(noisy + [score_answer(instance, a, BEYOND_INSTRUCTIONS) for a in answers])
    return [list(column) for column in zip(*rows, strict=True)]


def tau_squared(pairs: Sequence[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """τ_w² of a solver from its scores on the siblings of each pair, and its standard error."""
    each = [
        (fmean(one) - fmean(other)) ** 2 / 2
        - (variance(one) / len(one) + variance(other) / len(other)) / 2
        for one, other in pairs
    ]
    return fmean(each), math.sqrt(variance(each) / len(each))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dressings", nargs="*", type=Path)
    parser.add_argument("--instances", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    paths = given.dressings or sorted(DRESSINGS.glob("*.yaml"))
    with ProcessPoolExecutor(given.jobs) as pool:
        pairs = list(pool.map(measure, paths, [given.instances] * len(paths)))
    names = [*(f"noisy solver {n}" for n in range(1, 5))]
    names += [f"scripted agent, error rate {rate}" for rate in ERROR_RATES]
    print_table({n: [(a[i], b[i]) for a, b in pairs] for i, n in enumerate(names)})


def print_table(solvers: Mapping[str, Sequence[tuple[list[float], list[float]]]]) -> None:
    """Print a row for each solver, from its scores on the siblings of each pair."""
    print("| solver | mean score | spread | noise | τ_w² (standard error) | τ_w |")
    print("|---|---|---|---|---|---|")
    for name, own in solvers.items():
        square, error = tau_squared(own)
        seen = fmean((fmean(one) - fmean(other)) ** 2 / 2 for one, other in own)
        print(
            f"| {name} | {fmean(fmean(one + other) for one, other in own):.2f} "
            f"| {math.sqrt(seen):.3f} | {math.sqrt(seen - square):.3f} "
            f"| {square:+.5f} ({error:.5f}) | {math.sqrt(max(0.0, square)):.3f} |"
        )


if __name__ == "__main__":
    main()

"""Proof of dressings: each can be solved, and siblings are equally hard for solvers that err."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from generators.dressings.family import DressedFamily
from generators.errors import GeneratorError
from generators.validation.result import SOLVER_SCORE
from generators.validation.scores import mean_scores, noisy_scores, score_answer, solver_answer
from generators.validation.validate import public_seeds

PROVED_SEEDS = 3  # a difficulty: its files go back to the base family's in every draw
SIBLING_SCORE = 0.03  # largest difference of a noisy solver's mean scores


def unsolved(family: DressedFamily, difficulties: Sequence[str], seeds: int) -> tuple[str, ...]:
    """What keeps the reference solver from full marks, a line each."""
    return tuple(_unsolved(family, difficulties, seeds))


def _unsolved(family: DressedFamily, difficulties: Sequence[str], seeds: int) -> Iterator[str]:
    for difficulty in difficulties:
        for seed in public_seeds(seeds):
            try:
                instance = family.generate(difficulty, seed)
                score = score_answer(instance, solver_answer(family, instance))
            except GeneratorError as error:
                yield from str(error).split("\n")
                return
            if score < SOLVER_SCORE:
                yield f"{difficulty}: the solver scores {score:.3f}, below {SOLVER_SCORE}"


def sibling_differences(
    one: DressedFamily, other: DressedFamily, difficulty: str, seeds: int
) -> dict[str, float]:
    """For each noisy solver, the difference of its mean scores on the same draws in two dressings
    of a family. Raises GeneratorError for dressings of two families, which have other channels,
    tools and answers."""
    base, foreign = one.dressing.base, other.dressing.base
    if (base.name, base.version) != (foreign.name, foreign.version):
        raise GeneratorError(
            f"{other.dressing.document.path}: dresses {foreign.name}@{foreign.version}, and "
            f"{one.dressing.document.path} {base.name}@{base.version}: siblings dress one family"
        )
    # Under the base family's name both draw what it draws.
    means = [
        mean_scores(
            noisy_scores(alike, alike.generate(difficulty, seed), seed)
            for seed in public_seeds(seeds)
        )
        for alike in (replace(each, name=base.name, version=base.version) for each in (one, other))
    ]
    return {name: score.mean - means[1][name].mean for name, score in means[0].items()}

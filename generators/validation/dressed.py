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


def unsolved(family: DressedFamily, difficulties: Sequence[str], seeds: int) -> Iterator[str]:
    """Yield what keeps the reference solver from full marks, a line each."""
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


def unlike_siblings(siblings: Sequence[DressedFamily], seeds: int) -> Iterator[str]:
    """Yield the noisy solvers with other mean scores on a dressing than on the first, a line each.
    Raises GeneratorError for dressings of two families, which have other channels, tools and
    answers."""
    for other in siblings[1:]:
        one = siblings[0]
        if other.dressing.dresses != one.dressing.dresses:
            raise GeneratorError(
                f"{other.dressing.document.path}: dresses {other.dressing.dresses}, and "
                f"{one.dressing.document.path} {one.dressing.dresses}: siblings dress one family"
            )
        for difficulty in one.by_difficulty:
            for solver, difference in sibling_differences(one, other, difficulty, seeds).items():
                if abs(difference) > SIBLING_SCORE:
                    yield (
                        f"{other.name}/{difficulty}: {solver} scores {abs(difference):.3f} from "
                        f"{one.name}, more than {SIBLING_SCORE}"
                    )


def sibling_differences(
    one: DressedFamily, other: DressedFamily, difficulty: str, seeds: int
) -> dict[str, float]:
    """For each noisy solver, the difference of its mean scores on the same draws in two dressings
    of a family."""
    base = one.dressing.base
    means = []
    for sibling in (one, other):
        alike = replace(sibling, name=base.name, version=base.version)  # which draws what it draws
        drawn = ((alike.generate(difficulty, seed), seed) for seed in public_seeds(seeds))
        means.append(mean_scores(noisy_scores(alike, *each) for each in drawn))
    return {name: score.mean - means[1][name].mean for name, score in means[0].items()}

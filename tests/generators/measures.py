"""Scores of answers to some instances, and what the instances share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from generators.attackers import BOUNDS
from generators.task import Family, TaskInstance
from generators.validation.overlap import fingerprints, shared_among
from generators.validation.scores import (
    attack_scores,
    guess_scores,
    mean_scores,
    noisy_scores,
    score_answer,
    solver_answer,
)
from generators.validation.validate import public_seeds

ALL_SEEDS = os.environ.get("DOSIMETER_ALL_SEEDS") == "1"  # as `make test-all` sets it


def as_many(quickly: int, in_all: int) -> int:
    """How many seeds a test takes: in `make test`, or in `make test-all`."""
    return in_all if ALL_SEEDS else quickly


def solver_score(family: Family, instance: TaskInstance) -> float:
    return score_answer(instance, solver_answer(family, instance))


def null_scores(family: Family, instances: Sequence[TaskInstance]) -> dict[str, float]:
    """For each null answer, its mean score outside instructions-following."""
    means = mean_scores(guess_scores(family, instance) for instance in instances)
    return {name: score.mean for name, score in means.items()}


def shortcuts_over_bound(family: Any, instances: Iterable[TaskInstance]) -> dict[str, float]:
    """The mean scores of the family's attackers that earn more than their bound and 0.05."""
    means = mean_scores(attack_scores(family, each) for each in instances)
    bounds = {attacker.name: BOUNDS[attacker.access] + 0.05 for attacker in family.attackers()}
    return {name: means[name].mean for name, most in bounds.items() if means[name].mean > most}


def noisy_means(family: Family, count: int) -> list[float]:
    """The mean score of each of the family's noisy solvers in easy instances, in their order."""
    seeds = public_seeds(count)
    scores = [noisy_scores(family, family.generate("easy", seed), seed) for seed in seeds]
    return [score.mean for score in mean_scores(scores).values()]


def shared_fingerprints(instances: Iterable[TaskInstance]) -> frozenset[str]:
    """The identifying values of two or more of the instances."""
    return shared_among(map(fingerprints, instances))

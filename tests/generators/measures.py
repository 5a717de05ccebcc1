"""Scores of answers to some instances, and what the instances share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from generators.task import Family, TaskInstance
from generators.validation.overlap import fingerprints, shared_among
from generators.validation.scores import guess_scores, mean_scores, score_answer, solver_answer

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


def shared_fingerprints(instances: Iterable[TaskInstance]) -> frozenset[str]:
    """The identifying values of two or more of the instances."""
    return shared_among(map(fingerprints, instances))

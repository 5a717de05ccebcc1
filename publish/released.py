"""Samples of a release that Inspect ran from the Hub, graded by the rules of their instance.

``eval.yaml`` has Inspect note the seed of each instance, so that a log needs neither the release
nor a study to be graded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from generators.catalog import INSTALLED
from generators.grading.answer import parse_answer
from generators.grading.programs import hidden_inputs
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import Seed
from generators.task import TaskInstance
from publish.errors import PublishError

_NAMES = frozenset(("task", "version", "difficulty", "instance", "seed"))


@dataclass(frozen=True, slots=True)
class Released:
    """What a log notes of a released instance."""

    task: str
    version: str
    difficulty: str
    instance: str
    seed: str

    @property
    def stratum(self) -> str:
        """The stratum: task/difficulty."""
        return f"{self.task}/{self.difficulty}"


def is_released(metadata: Mapping[str, Any] | None) -> bool:
    """Report if a sample's metadata are those of a released instance."""
    return metadata is not None and metadata.keys() >= _NAMES


def released_of(metadata: Mapping[str, Any]) -> Released:
    """Return what a sample's metadata note of its instance."""
    return Released(**{name: str(metadata[name]) for name in _NAMES})


def grade_released(released: Released, text: str) -> float | None:
    """Return the score of a final message, 0 without a valid answer; None if the message alone
    does not decide it. Raises PublishError if the generators installed here do not make this
    instance."""
    instance = _instance(released)
    if hidden_inputs(instance.rubric) or not instance.brief.answer_schema:
        return None
    answer = parse_answer(text, None, instance.brief.answer_schema)
    if answer is None:
        return 0.0
    return score_verdicts(instance.rubric, check_answer(instance.rubric, answer))


@lru_cache(maxsize=64)  # epochs and models of one log follow each other
def _instance(released: Released) -> TaskInstance:
    try:
        family = INSTALLED.family(released.task, released.version)
        instance = family.generate(released.difficulty, Seed.from_hex(released.seed))
    except Exception as error:  # of any kind: a seed of a log may hold any item
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise PublishError(f"its instance cannot be made again: {reason}") from None
    if instance.id != released.instance:
        raise PublishError("the seed that it notes is not that of its instance")
    return instance

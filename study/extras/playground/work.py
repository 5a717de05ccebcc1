"""What the playground does: an instance from a seed of one's own, and the grade of an answer.

It knows the repository's own families alone: no installed, dressed or given one, and no study.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any

from generators.catalog import Catalog
from generators.errors import GeneratorError
from generators.grading.answer import parse_answer
from generators.grading.programs import hidden_inputs
from generators.grading.rubric import check_answer, score_verdicts
from generators.seed import Seed
from generators.task import TaskInstance, difficulties_of

CATALOG = Catalog.built_in()
LONGEST_SEED, LONGEST_ANSWER = 200, 200_000  # characters
_HEX = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Made:
    """An instance with the answer that earns full marks."""

    instance: TaskInstance
    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of the rubric: the texts of its parts, and the share of them that is met."""

    name: str
    texts: tuple[str, ...]
    met: float


@dataclass(frozen=True, slots=True)
class Marked:
    """The grade of an answer; without a score, ``faults`` say why."""

    score: float | None
    criteria: tuple[Criterion, ...] = ()
    faults: tuple[str, ...] = ()


def families() -> dict[str, tuple[str, ...]]:
    """Return the difficulties of each family."""
    return {family.name: tuple(difficulties_of(family)) for family in CATALOG.newest()}


def summary_of(name: str) -> str:
    """Return what a family asks."""
    return CATALOG.family(name).summary


def seed_of(text: str) -> Seed:
    """Return the seed that a text stands for: itself if it is 64 hexadecimal digits, else its
    SHA-256. Raises GeneratorError for none, and for one of more than LONGEST_SEED characters."""
    plain = text.strip()
    if not plain or len(plain) > LONGEST_SEED:
        raise GeneratorError(f"a seed is a text of 1 to {LONGEST_SEED} characters")
    if _HEX.fullmatch(plain):
        return Seed.from_hex(plain)
    return Seed(hashlib.sha256(plain.encode("utf-8", "replace")).digest())


@lru_cache(maxsize=8)  # an instance is made, shown, and graded some times
def make(name: str, difficulty: str, seed: str) -> Made:
    """Return the instance of a seed. Raises GeneratorError."""
    if difficulty not in families().get(name, ()):
        raise GeneratorError(f"there is no {name[:80]}/{difficulty[:80]}")
    family = CATALOG.family(name)
    instance = family.generate(difficulty, seed_of(seed))
    return Made(instance, family.key(instance.truth))


def mark(made: Made, text: str) -> Marked:
    """Grade an answer by the exact grader: the block in the text, or the text if it is one JSON
    object."""
    rubric, schema = made.instance.rubric, made.instance.brief.answer_schema
    if hidden_inputs(rubric):
        return Marked(
            None, faults=("Hidden tests run the answer's program, which needs a sandbox.",)
        )
    if len(text) > LONGEST_ANSWER:
        return Marked(None, faults=(f"The answer has more than {LONGEST_ANSWER:,} characters.",))
    answer = parse_answer(text, text.encode("utf-8", "replace"), schema)
    if answer is None:
        return Marked(0.0, faults=("There is no JSON object between <answer> and </answer>.",))
    verdicts = check_answer(rubric, answer)
    met = {part.id: verdict for part, verdict in zip(rubric.parts, verdicts, strict=True)}
    decided = [[part for part in parts if met[part.id] is not None] for parts in rubric.criteria]
    criteria = tuple(
        Criterion(
            parts[0].criterion,
            tuple(part.text for part in parts),
            fmean(bool(met[part.id]) for part in parts),
        )
        for parts in decided
        if parts
    )
    return Marked(score_verdicts(rubric, verdicts), criteria, answer.violations(schema))

"""A digest of the grades of known answers, which a registration pins, so that no later version of
the program grades otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from generators.catalog import Catalog
from generators.grading.answer import Answer
from generators.grading.rubric import (
    apply_gates,
    check_facts,
    headline_credit,
    score_parts,
    score_verdicts,
)
from generators.seed import Seed
from generators.task import TaskInstance
from generators.templates.scoring.score import Scored
from generators.validation.programs import with_printed
from generators.validation.scores import perturb_answer
from registry.canonical import digest_value
from study.protocol.protocol import Task

Block = dict[str, Any]
_ROOT = Seed(hashlib.sha256(b"dosimeter/grading/1").digest())
_FALSIFIED = (0.0, 0.1, 0.3, 1.0)  # shares of a key's readings
_FACTORS = (0.8, 0.95, 0.99, 0.998, 1.002, 1.01, 1.05, 1.2)  # on the numbers of one of its parts
_INSTANCES = 2


def grading_digest(tasks: Sequence[Task], catalog: Catalog) -> str:
    """Return a digest of the verdicts and scores on answers to instances of each task. Their seeds
    are fixed and no study's: nothing in it is secret."""
    grades = []
    for task in tasks:
        family = catalog.family(task.family, task.version)
        for number in range(_INSTANCES):
            seed = _ROOT.child(task.family, task.difficulty, number)
            instance = family.generate(task.difficulty, seed)
            blocks = (*_altered(family.key(instance.truth), seed), *family.nulls(instance).values())
            answers = (None, *map(Answer, blocks), *_texts(instance))
            grades.append([task.stratum, [_grade(instance, answer) for answer in answers]])
    return digest_value(grades)


def _altered(key: Block, seed: Seed) -> Iterator[Block]:
    """A key with some of its readings falsified, and with the numbers of one part a little off, so
    that gates stay open and a change of tolerances shows."""
    for number, share in enumerate(_FALSIFIED):
        yield perturb_answer(key, share, seed.child("falsify", number).rng())
    for name in key:
        yield {**key, name: perturb_answer(key[name], 1.0, seed.child("part", name).rng())}
        for factor in _FACTORS:
            yield {**key, name: _scaled(key[name], factor)}


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {name: _scaled(item, factor) for name, item in value.items()}
    if isinstance(value, list):
        return [_scaled(item, factor) for item in value]
    return value * factor if isinstance(value, float) else value


def _texts(instance: TaskInstance) -> Iterator[Answer]:
    """The expected answers of a templated question, right and with a word more."""
    for part in instance.rubric.parts:
        if isinstance(check := part.check, Scored):
            for text in (check.expected, f"{check.expected} indeed"):
                files = {check.file: text.encode()} if check.file else {}
                yield Answer({}, files, "" if check.file else text)


def _grade(instance: TaskInstance, answer: Answer | None) -> list[object]:
    answer = with_printed(instance.rubric, answer)
    facts = check_facts(instance.rubric, answer)
    verdicts = apply_gates(instance.rubric, facts, answer)
    scores = (
        score_verdicts(instance.rubric, verdicts),
        *score_parts(instance.rubric, verdicts),
        headline_credit(instance.rubric, facts),
    )
    return [list(verdicts), *(None if score is None else round(score, 9) for score in scores)]

"""Deterministic grading: an episode's answer block against the rubric's checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from generators.grading.answer import Answer, parse_answer
from generators.grading.programs import hidden_inputs, program_of
from generators.grading.rubric import (
    DIMENSIONS,
    Rubric,
    Verdicts,
    apply_gates,
    check_facts,
    headline_credit,
    key_fraction,
    score_parts,
    score_verdicts,
)
from generators.items import REWARD
from generators.task import Brief, TaskInstance
from harness.episode import Episode, Grade, GradeStatus, StopReason
from harness.errors import HarnessError
from registry.result_row import GRADER

_SCORES = ("score", "score_key", "key_fraction", "gate_free")


def grade_episode(instance: TaskInstance, episode: Episode) -> Grade:
    """The grade that follows from the answer alone: the block of the final message or of
    ``answer.json`` (``parse_answer`` has which), with the repairs that it needed and what in it
    does not fit the schema; the message itself and the collected files where no block is asked for;
    and what the answer's program printed when the episode ended.

    An attempt that the infrastructure failed has no score; a model that left no valid answer
    scores 0. Raises HarnessError for an episode of another instance, or without the runs of its
    program that the rubric asks about.
    """
    if episode.instance != instance.id:
        raise HarnessError(f"episode {episode.id} belongs to another instance than the one given")
    rubric = instance.rubric
    if episode.stop is StopReason.FAILED:
        undecided = (None,) * len(rubric.parts)
        return make_grade(episode, GRADER, rubric, GradeStatus.MISSING, undecided)
    answer = read_answer(instance.brief, episode)
    program = None if answer is None else program_of(answer)
    if program is not None and hidden_inputs(rubric) and not episode.program_runs:
        raise HarnessError(f"episode {episode.id} has no runs of its answer's program")
    facts = check_facts(rubric, answer)
    if answer is None:
        return make_grade(episode, GRADER, rubric, GradeStatus.NO_ANSWER, facts)
    grade = make_grade(episode, GRADER, rubric, GradeStatus.GRADED, facts, answer)
    if instance.truth.verifier is not None:
        reward = float(answer.printed[REWARD])  # which may lie between 0 and 1
        scores: dict[str, Any] = dict.fromkeys(_SCORES, reward)
        return replace(grade, dimension_scores=(("SR", reward),), **scores)
    schema = instance.brief.answer_schema
    violations = answer.violations(schema) if schema else ()
    return replace(grade, repairs=answer.repairs, violations=violations)


def read_answer(brief: Brief, episode: Episode) -> Answer | None:
    """The answer of an episode with the files that count; None if it left no valid block."""
    files = dict(episode.answer_files)
    printed = {run.given: run.output for run in episode.program_runs if run.exit_code == 0}
    if not brief.answer_schema:
        return Answer({}, files, episode.answer).with_printed(printed)
    answer = parse_answer(episode.answer, episode.answer_file, brief.answer_schema)
    if answer is None:
        return None
    return answer.with_files(files).with_printed(printed)


def make_grade(
    episode: Episode,
    grader: str,
    rubric: Rubric,
    status: GradeStatus,
    facts: Verdicts,
    answer: Answer | None = None,
) -> Grade:
    """Return the grade that follows from a grader's verdicts on the facts, and from the block that
    decides the gates before them; 0 if there is no answer."""
    verdicts = apply_gates(rubric, facts, answer)
    score = 0.0 if status is GradeStatus.NO_ANSWER else score_verdicts(rubric, verdicts)
    key, static = score_parts(rubric, verdicts)
    return Grade(
        episode=episode.id,
        grader=grader,
        status=status,
        parts=tuple(part.id for part in rubric.parts),
        facts=facts,
        verdicts=verdicts,
        score=score,
        dimension_scores=tuple(
            (name, score_verdicts(rubric, verdicts, (name,))) for name in DIMENSIONS
        ),
        score_key=key,
        score_static=static,
        key_fraction=key_fraction(rubric, verdicts),
        gate_free=headline_credit(rubric, facts),
    )

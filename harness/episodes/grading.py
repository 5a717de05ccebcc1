"""Deterministic grading: an episode's answer block against the rubric's checks."""

from __future__ import annotations

from dataclasses import replace

from generators.grading import (
    DIMENSIONS,
    Answer,
    Rubric,
    check_answer,
    headline_credit,
    key_fraction,
    parse_answer,
    score_parts,
    score_verdicts,
)
from generators.task import Brief, TaskInstance
from harness.episode import Episode, Grade, GradeStatus, StopReason
from harness.errors import HarnessError
from registry.result_row import GRADER

Verdicts = tuple[bool | None, ...]


def grade_episode(instance: TaskInstance, episode: Episode) -> Grade:
    """The grade that follows from the answer alone: the block of the final message or of
    ``answer.json`` (``parse_answer`` has which), with the repairs that it needed and what in it
    does not fit the schema; the message itself and the collected files where no block is asked for.

    An attempt that the infrastructure failed has no score; a model that left no valid answer
    scores 0. Raises HarnessError for an episode of another instance.
    """
    if episode.instance != instance.id:
        raise HarnessError(f"episode {episode.id} belongs to another instance than the one given")
    rubric = instance.rubric
    if episode.stop is StopReason.FAILED:
        undecided = (None,) * len(rubric.criteria)
        return make_grade(episode, GRADER, rubric, GradeStatus.MISSING, undecided)
    answer = read_answer(instance.brief, episode)
    verdicts = check_answer(rubric, answer)
    status = GradeStatus.NO_ANSWER if answer is None else GradeStatus.GRADED
    grade = replace(
        make_grade(episode, GRADER, rubric, status, verdicts),
        gate_free=headline_credit(rubric, answer),
    )
    if answer is None:
        return grade
    schema = instance.brief.answer_schema
    violations = answer.violations(schema) if schema else ()
    return replace(grade, repairs=answer.repairs, violations=violations)


def read_answer(brief: Brief, episode: Episode) -> Answer | None:
    """The answer of an episode with the files that count; None if it left no valid block."""
    files = dict(episode.answer_files)
    if not brief.answer_schema:
        return Answer({}, files, episode.answer)
    answer = parse_answer(episode.answer, episode.answer_file, brief.answer_schema)
    return None if answer is None else answer.with_files(files)


def make_grade(
    episode: Episode, grader: str, rubric: Rubric, status: GradeStatus, verdicts: Verdicts
) -> Grade:
    """Return the grade that follows from a grader's verdicts; 0 if there is no answer."""
    score = 0.0 if status is GradeStatus.NO_ANSWER else score_verdicts(rubric, verdicts)
    key, static = score_parts(rubric, verdicts)
    return Grade(
        episode=episode.id,
        grader=grader,
        status=status,
        criteria=tuple(criterion.id for criterion in rubric.criteria),
        verdicts=verdicts,
        score=score,
        dimension_scores=tuple(
            (name, score_verdicts(rubric, verdicts, (name,))) for name in DIMENSIONS
        ),
        score_key=key,
        score_static=static,
        key_fraction=key_fraction(rubric, verdicts),
    )

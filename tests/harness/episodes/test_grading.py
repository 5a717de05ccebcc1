"""Grading: deterministic, from the answer alone; missing is never zero."""

from __future__ import annotations

import dataclasses
import json

import pytest

from generators.catalog import INSTALLED
from generators.grading.answer import parse_answer
from generators.grading.rubric import DIMENSIONS
from generators.seed import Seed
from generators.task import Family, TaskInstance
from generators.validation.programs import with_printed
from harness.episode import Episode, Grade, GradeStatus, ProgramRun, StopReason
from harness.episodes.grading import grade_episode
from harness.errors import HarnessError
from tests.harness.script import noon

FAMILIES = {each.name: each for each in INSTALLED.families()}


def instance_of(name: str) -> TaskInstance:
    return INSTALLED.family(name).generate("easy", Seed(bytes(32)))


def block(answer: object) -> str:
    return f"Prose.\n<answer>\n{json.dumps(answer)}\n</answer>"


def episode_of(
    instance: TaskInstance,
    answer: str = "",
    answer_file: bytes | None = None,
    stop: StopReason = StopReason.ANSWERED,
) -> Episode:
    read = with_printed(instance.rubric, parse_answer(answer, answer_file))
    printed = {} if read is None else read.printed
    return Episode(
        id="e", instance=instance.id, run="run", model="m", replicate=0, attempt=1, answer=answer,
        answer_file=answer_file, stop=stop, started=noon(), seconds=1.0, container="c",
        program_runs=tuple(ProgramRun(*each, 0) for each in printed.items()),
    )  # fmt: skip


@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_the_key_scores_full_marks_from_text_or_file(task: Family) -> None:
    instance = instance_of(task.name)
    key = task.key(instance.truth)
    for episode in (
        episode_of(instance, block(key)),
        episode_of(instance, "See the file.", json.dumps(key).encode()),
        episode_of(instance, block(key), stop=StopReason.TURN_LIMIT),
    ):
        grade = grade_episode(instance, episode)
        assert (grade.status, grade.score, grade.grader) == (
            GradeStatus.GRADED, 1.0, "deterministic",
        )  # fmt: skip
        assert grade.parts == tuple(each.id for each in instance.rubric.parts)
        assert all(grade.verdicts)
        used = {each.dimension for each in instance.rubric.parts}
        assert dict(grade.dimension_scores) == {
            name: 1.0 if name in used else None for name in DIMENSIONS
        }


def test_a_complete_file_counts_before_part_of_an_answer_in_the_text() -> None:
    instance = instance_of("compute_average")
    key = INSTALLED.family("compute_average").key(instance.truth)
    wrong = {"task": "compute_average", "numbers": [], "block_averages": {}, "average": 0}
    file = json.dumps(key).encode()
    assert grade_episode(instance, episode_of(instance, block({"numbers": []}), file)).score == 1.0
    score = grade_episode(instance, episode_of(instance, block(wrong), file)).score
    assert score is not None
    assert score < 0.15


def test_a_grade_names_repairs_and_violations_beside_the_criteria_that_they_cost() -> None:
    instance = instance_of("compute_average")
    key = INSTALLED.family("compute_average").key(instance.truth)
    clean = grade_episode(instance, episode_of(instance, block(key)))
    assert (clean.score, clean.repairs, clean.violations) == (1.0, (), ())
    loose = f"Done.\n```json\n{json.dumps(key | {'mood': 1})[:-1]},}}\n```"
    grade = grade_episode(instance, episode_of(instance, loose))
    assert grade.repairs == ("tag_missing", "trailing_comma")
    assert lost(grade) == {"answer_block/0"}
    assert grade.score == pytest.approx(1 - 0.1 / 13.2)
    grade = grade_episode(instance, episode_of(instance, block(key | {"average": "3"})))
    assert grade.violations == ('$.average: does not meet type: "number"',)
    assert lost(grade) == {"answer_schema/0", "computed_average/0"}


def lost(grade: Grade) -> set[str]:
    return {name for name, verdict in zip(grade.parts, grade.verdicts, strict=True) if not verdict}


@pytest.mark.parametrize("text", ["", "42", "<answer>\n{\n</answer>", block([1]), "<answer>NaN"])
def test_no_valid_answer_is_the_models_own_failure_and_scores_zero(text: str) -> None:
    instance = instance_of("count_circles")
    grade = grade_episode(instance, episode_of(instance, text, b"not json"))
    assert (grade.status, grade.score) == (GradeStatus.NO_ANSWER, 0.0)
    assert not any(grade.verdicts)


def test_a_failed_attempt_has_no_score_even_where_it_left_an_answer() -> None:
    instance = instance_of("count_circles")
    key = INSTALLED.family("count_circles").key(instance.truth)
    grade = grade_episode(instance, episode_of(instance, block(key), stop=StopReason.FAILED))
    assert (grade.status, grade.score) == (GradeStatus.MISSING, None)
    assert set(grade.verdicts) == {None}
    assert dict(grade.dimension_scores) == dict.fromkeys(DIMENSIONS)


def test_an_episode_of_another_instance_is_not_graded() -> None:
    instance = instance_of("count_circles")
    other = dataclasses.replace(episode_of(instance), instance="sha256:" + "0" * 64)
    with pytest.raises(HarnessError, match="belongs to another instance"):
        grade_episode(instance, other)

"""Scores worked out by hand: the weighted score of the article, the unweighted fraction, a score
for each dimension, and failures of a model apart from those of the infrastructure."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from analysis.data.seed_means import make_seed_means
from analysis.data.table import make_table
from generators.grading.checks import Check, Gated, NumberWithin, ShareOf
from generators.grading.rubric import Part, Rubric
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, Limits, TaskInstance, TaskSpec
from harness.episode import Cell, Episode, GradeStatus, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.result import judged_row, row_of, summarise_episode
from harness.judge.grade import judge_episode
from harness.judge.judge import Judge
from harness.model import Message, ModelRequest, Reply, Role, Usage
from registry.ledger.records import JudgePin
from registry.result_row import Arm, ResultRow, Status
from tests.harness.models.test_scripted_judge import forget
from tests.harness.script import noon

# Three metarubrics, of weight 5, 3 and 2, in three dimensions:
#   fit     weight 5  SR  1 criterion of 4 parts, a to d
#   counts  weight 3  DH  1 criterion of 2 parts, e and f
#   form    weight 2  IF  1 criterion: that there is an answer
RIGHT = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0, "f": 6.0}


def criterion(meta: str, row: int, weight: float, dimension: str, check: Check) -> Part:
    text = f"It states {check.path[0]}." if isinstance(check, NumberWithin) else "It answers."
    source = "" if meta == "form" else f"{meta}/{row}"
    return Part(f"{meta}/{row}", meta, meta, text, dimension, weight, source, check)


def within(name: str) -> NumberWithin:
    return NumberWithin((name,), RIGHT[name] - 0.1, RIGHT[name] + 0.1)


RUBRIC = Rubric(
    (
        *(criterion("fit", row, 5.0, "SR", within(name)) for row, name in enumerate("abcd")),
        *(criterion("counts", row, 3.0, "DH", within(name)) for row, name in enumerate("ef")),
        criterion("form", 0, 2.0, "IF", NumberWithin(("a",), -1e9, 1e9)),
    )
)
SPEC = TaskSpec("by_hand", "1", "easy", ())
INSTANCE = TaskInstance(
    id="sha256:i",
    spec=SPEC,
    brief=Brief("Do it.", (Asset("a.txt", b"", "text/plain"),), "{}", Limits()),
    truth=GroundTruth(()),
    rubric=RUBRIC,
    title="Alder Abbey, run 0000000000",
    marker="amber",
)
CELL = Cell("sha256:e", SPEC, INSTANCE.id, Seed(bytes(32)), "m", 0)


def episode(answer: str, stop: StopReason = StopReason.ANSWERED, error: str = "") -> Episode:
    return Episode(
        id=CELL.episode, instance=INSTANCE.id, run="run", model="m", replicate=0, attempt=1,
        answer=answer, stop=stop, started=noon(), seconds=1.0, container="c", error_class=error,
    )  # fmt: skip


def handed_in(**values: float) -> str:
    return f"Here it is.\n<answer>\n{json.dumps({**RIGHT, **values})}\n</answer>"


def row(made: Episode, replicate: int = 0) -> ResultRow:
    cell = replace(CELL, replicate=replicate)
    return row_of(summarise_episode(0, cell, made, grade_episode(INSTANCE, made), 1), Arm.PUBLIC)


def test_one_wrong_fit_and_one_wrong_count() -> None:
    found = row(episode(handed_in(b=9.0, f=9.0)))
    assert found.status is Status.SCORED
    # fit passes 3 of 4, counts 1 of 2, form 1 of 1:
    # (5 · 0.75 + 3 · 0.5 + 2 · 1) / (5 + 3 + 2) = (3.75 + 1.5 + 2) / 10 = 0.725
    assert found.score == pytest.approx(0.725)
    # without weights 3 + 1 + 1 of 7 parts, which is not the weighted score
    assert (found.passed, found.total) == (5, 7)
    # SR is fit alone, 3/4; DH counts alone, 1/2; IF form alone; nothing asks of images
    assert (found.score_sr, found.score_dh, found.score_im, found.score_if) == (
        0.75, 0.5, None, 1.0,
    )  # fmt: skip
    # fit and counts need the key, (5 · 0.75 + 3 · 0.5) / 8; form is the same in every instance
    assert (found.score_key, found.score_static) == (pytest.approx(0.65625), 1.0)
    assert found.key_fraction == pytest.approx((3 / 4 + 1 / 2) / 2)  # the two that need the key
    assert found.gate_free == pytest.approx(0.65625)  # no value is marked: all that needs the key


def test_everything_right_and_everything_wrong() -> None:
    assert row(episode(handed_in())).score == 1.0
    wrong = row(episode(handed_in(**dict.fromkeys(RIGHT, 99.0))))
    # only form is met: 2 · 1 / 10, and 1 of 7
    assert (wrong.score, wrong.passed, wrong.total) == (pytest.approx(0.2), 1, 7)
    assert (wrong.score_sr, wrong.score_if) == (0.0, 1.0)


@pytest.mark.parametrize(
    "stop", [StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.TIME_LIMIT]
)
def test_what_the_model_failed_at_scores_zero_in_every_column(stop: StopReason) -> None:
    found = row(episode("I cannot help with this.", stop))
    assert found.status is Status.MODEL_FAILURE
    assert (found.score, found.passed, found.total) == (0.0, 0, 7)
    assert (found.score_sr, found.score_dh, found.score_im, found.score_if) == (0, 0, None, 0)
    assert (found.score_key, found.score_static) == (0, 0)
    assert (found.key_fraction, found.gate_free) == (0, 0)


def test_what_the_infrastructure_failed_at_is_missing_in_every_column() -> None:
    # even where the attempt had come to an answer that is right
    found = row(episode(handed_in(), StopReason.FAILED, "sandbox:lost"))
    assert (found.status, found.error_class) == (Status.MISSING, "sandbox:lost")
    assert (found.score, found.passed, found.total) == (None, None, None)
    assert (found.score_sr, found.score_dh, found.score_im, found.score_if) == (None,) * 4
    assert (found.score_key, found.score_static) == (None, None)
    assert (found.key_fraction, found.gate_free) == (None, None)


def test_a_seeds_mean_counts_failures_of_the_model_and_leaves_out_the_others() -> None:
    public = [
        row(episode(handed_in(b=9.0, f=9.0)), 0),  # 0.725, 5/7
        row(episode("No."), 1),  # 0, 0/7
        row(episode("", StopReason.FAILED, "provider:overload"), 2),  # missing
        row(episode(handed_in()), 3),  # 1, 7/7
    ]
    private = [replace(public[2], arm=Arm.PRIVATE, instance="sha256:j", replicate=0)]
    table = make_table([*public, *private])
    outcomes = ("score", "fraction", "key-fraction")
    data = make_seed_means(table, outcomes, ("by_hand/easy",), wave=0)
    means = data.values[data.public][0, 0]
    # (0.725 + 0 + 1) / 3 = 0.575 and (5/7 + 0 + 1) / 3 = 4/7: three runs count, not four; of the
    # criteria that need the key (5/8 + 0 + 1) / 3
    assert means.tolist() == pytest.approx([0.575, 4 / 7, 13 / 24])
    assert np.isnan(data.values[~data.public]).all()  # all of its runs are missing: no zero


class _Says:
    """A judge's model that is handed its verdicts; the wire is another test's."""

    name, trusted, paid = "says", False, True

    def __init__(self, *met: bool) -> None:
        self.met = met

    def respond(self, request: ModelRequest) -> Reply:
        listed = [{"id": f"c{n}", "evidence": "", "met": x} for n, x in enumerate(self.met, 1)]
        return Reply(Message(Role.ASSISTANT, json.dumps({"verdicts": listed})), Usage(1, 1), "v")


def test_a_value_behind_a_gate_counts_whatever_the_readings() -> None:
    """Of readings all wrong, the score gives a headline value nothing and gate-free credit all."""
    readings = Gated(within("f"), ShareOf(tuple(map(within, "abcd"))))
    headline = Part("h/0", "h", "h", "It states f.", "SR", 10.0, "h/0", readings, headline=True)
    instance = replace(INSTANCE, rubric=Rubric((*RUBRIC.parts[:4], headline)))

    def graded(answer: str) -> tuple[float | None, float | None]:
        grade = grade_episode(instance, episode(answer))
        return grade.score, grade.gate_free

    wrong = dict.fromkeys("abcd", 99.0)
    assert graded(handed_in(**wrong)) == (0.0, 1.0)
    assert graded(handed_in(**wrong, f=9.0)) == (0.0, 0.0)
    assert graded(handed_in()) == (1.0, 1.0)
    assert graded("No.") == (0.0, 0.0)


def test_a_judges_column_is_scored_in_the_same_way() -> None:
    judge = Judge(
        JudgePin("j", "openai", "j-1", ""), _Says(True, True, False, False, True, True, False)
    )
    made = episode(handed_in(b=9.0, f=9.0))
    result = summarise_episode(0, CELL, made, grade_episode(INSTANCE, made), 1)
    found = judged_row(result, judge_episode(judge, INSTANCE, made, forget), Arm.PUBLIC)
    # fit 2 of 4, counts 2 of 2, form 0 of 1: (5 · 0.5 + 3 · 1 + 2 · 0) / 10 = 0.55
    assert (found.grader, found.score) == ("j", pytest.approx(0.55))
    assert (found.passed, found.total) == (4, 7)
    assert (found.score_sr, found.score_dh, found.score_if) == (0.5, 1.0, 0.0)
    lost = episode(handed_in(), StopReason.FAILED, "sandbox:lost")
    unread = replace(episode(""), container="elsewhere")  # a log's score, without the answer
    for made in (lost, unread):
        assert judge_episode(judge, INSTANCE, made, forget).status is GradeStatus.MISSING
    none = judge_episode(judge, INSTANCE, episode("  "), forget)
    assert (none.status, none.score) == (GradeStatus.NO_ANSWER, 0.0)

"""Rows: the contract with the analysis, one column at a time."""

from __future__ import annotations

from dataclasses import fields, replace

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Episode, Grade, GradeStatus, StopReason, ToolUse, Turn
from harness.episodes.result import EpisodeResult, row_of, summarise_episode
from harness.model import Message, Reply, Role, Usage
from registry.result_row import Arm, ResultRow, Status
from tests.harness.script import noon

CELL = Cell("sha256:e", TaskSpec("circles", "1", "hard", ()), "sha256:i", Seed(bytes(32)), "m", 1)


def use(*limits: str) -> ToolUse:
    return ToolUse("c", "run_command", Message(Role.TOOL, ""), 0.1, 137, limits)


def step(*uses: ToolUse, version: str = "v-2026") -> Turn:
    return Turn(Reply(Message(Role.ASSISTANT, ""), Usage(5, 2), version), uses, 0.5)


def episode(*steps: Turn, stop: StopReason = StopReason.ANSWERED, error: str = "") -> Episode:
    usage = Usage(10, 4) if steps else Usage()
    return Episode(
        id=CELL.episode, instance=CELL.instance, run="run", model="m", replicate=1, attempt=2,
        steps=steps, stop=stop, usage=usage, started=noon(), seconds=7.5, container="c",
        error_class=error,
    )  # fmt: skip


def grade(status: GradeStatus, verdicts: tuple[bool | None, ...], score: float | None) -> Grade:
    dimensions = (("SR", score), ("DH", None), ("IM", None), ("IF", score))
    parts = ("a", "b", "c")
    return Grade(
        CELL.episode, "deterministic", status, parts, verdicts, verdicts, score, dimensions
    )


def test_a_graded_episode_fills_every_column() -> None:
    steps = (step(use("memory"), use("disk", "memory")), step())
    graded = grade(GradeStatus.GRADED, (True, False, None), 0.75)
    graded = replace(graded, repairs=("fence", "tag_form"))
    row = row_of(summarise_episode(3, CELL, episode(*steps), graded, 2), Arm.PRIVATE)
    assert row == ResultRow(
        wave=3, model="m", arm=Arm.PRIVATE, stratum="circles/hard", family="circles",
        difficulty="hard", instance="sha256:i", replicate=1, grader="deterministic",
        status=Status.SCORED, score=0.75, passed=1, total=2, score_sr=0.75, score_dh=None,
        score_im=None, score_if=0.75, stop_reason="answered", error_class="",
        limits_hit="disk,memory", turns=2, tool_calls=2, input_tokens=10, output_tokens=4,
        cost_usd=None, seconds=7.5, attempts=2, served_version="v-2026", repairs="fence,tag_form",
        finish="stop",
    )  # fmt: skip


def test_what_served_the_replies_is_named_in_the_order_first_met() -> None:
    turns = [step(version=version) for version in ("v-1", "v-2", "v-1")]
    named = [("r2", "fp_b"), ("r1", "fp_a"), ("r3", "fp_b")]
    steps = [
        replace(turn, reply=replace(turn.reply, response_id=response, fingerprint=fingerprint))
        for turn, (response, fingerprint) in zip(turns, named, strict=True)
    ]
    steps[-1] = replace(steps[-1], reply=replace(steps[-1].reply, finish="open_thought"))
    graded = grade(GradeStatus.GRADED, (True, True, True), 1.0)
    played = replace(episode(*steps), usage=Usage(15, 6, reasoning_tokens=7))
    row = row_of(summarise_episode(0, CELL, played, graded, 1), Arm.PUBLIC)
    assert (row.response_id, row.fingerprint) == ("r2, r1, r3", "fp_b, fp_a")
    assert (row.served_version, row.reasoning_tokens) == ("v-1, v-2", 7)
    assert row.finish == "open_thought", "that of the last"


def test_running_out_of_turns_with_an_answer_is_no_failure() -> None:
    graded = grade(GradeStatus.GRADED, (True, True, True), 1.0)
    row = row_of(
        summarise_episode(0, CELL, episode(step(), stop=StopReason.TURN_LIMIT), graded, 1),
        Arm.PUBLIC,
    )
    assert (row.status, row.score, row.stop_reason) == (Status.SCORED, 1.0, "turn_limit")


def test_what_workers_write_knows_no_arm_and_the_arm_is_joined_later() -> None:
    names = {field.name for field in fields(EpisodeResult)}
    assert "arm" not in names
    assert {field.name for field in fields(ResultRow)} - names == {"arm", "tranche", "burned"}
    graded = grade(GradeStatus.GRADED, (True, True, True), 1.0)
    result = summarise_episode(0, CELL, episode(step()), graded, 1)
    assert (result.attempt, result.grade) == (2, graded)

"""Hostile programs under hidden tests, in containers: none learns an expected output, none passes a
test, and none is recorded as infrastructure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generators.task import Limits
from harness.episode import Episode, GradeStatus, StopReason
from harness.episodes import hidden_tests
from tests.cases import cases
from tests.harness.episodes.test_hidden_tests import (
    FAULTY,
    INPUTS,
    INSTANCE,
    NAMED,
    RIGHT,
    attempt,
    grade,
    hand_in,
    leave,
    passed_of,
)
from tests.harness.script import call, say

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes

pytestmark = pytest.mark.docker

LIMITS = Limits(
    turns=6, tool_seconds=20.0, memory_bytes=96 << 20, disk_bytes=16 << 20, processes=32
)
PRINTED = [str(row) for row in INSTANCE.truth.table("tests").column("printed")]
HOSTILE = cases(__file__, "hostile")


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_tests, "RUN_SECONDS", 2.0)
    monkeypatch.setattr(hidden_tests, "ALL_SECONDS", 2.5)


def play(sandboxes: DockerSandboxes, program: str) -> Episode:
    return attempt(sandboxes, leave(program), trusted=False, limits=LIMITS)


def test_an_agent_that_repairs_earns_all_and_one_that_leaves_it_nothing(
    docker_sandboxes: DockerSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_tests, "ALL_SECONDS", 60.0)
    repaired = play(docker_sandboxes, RIGHT)
    assert (repaired.stop, grade(repaired).score) == (StopReason.ANSWERED, 1.0)
    assert len(repaired.program_runs) == len(INPUTS)
    in_message = attempt(docker_sandboxes, [say(hand_in(RIGHT))], trusted=False, limits=LIMITS)
    assert grade(in_message).score == 1.0
    left = attempt(docker_sandboxes, [say(NAMED)], trusted=False, limits=LIMITS)
    assert passed_of(left) == passed_of(play(docker_sandboxes, FAULTY)) == 0.0


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_program_passes_nothing_and_is_no_failure_of_ours(
    program: str, docker_sandboxes: DockerSandboxes
) -> None:
    episode = play(docker_sandboxes, program)
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert (grade(episode).status, passed_of(episode)) == (GradeStatus.GRADED, 0.0)
    assert len(episode.program_runs) == len(INPUTS)
    assert all(len(run.output) <= hidden_tests.OUTPUT_BYTES for run in episode.program_runs)
    assert not any(run.output.strip() in PRINTED for run in episode.program_runs)


def test_what_an_agent_plants_in_its_sandbox_does_not_reach_the_tests(
    docker_sandboxes: DockerSandboxes,
) -> None:
    planted = call(("execute_python", {"code": cases(__file__, "plant")}))
    program = cases(__file__, "look")
    episode = attempt(docker_sandboxes, [planted, *leave(program)], trusted=False, limits=LIMITS)
    printed = {run.output for run in episode.program_runs} - {""}  # of one out of its seconds
    assert printed == {"/work False\n/tmp False\n/dev/shm False\n"}

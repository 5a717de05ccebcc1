"""Hostile programs under hidden tests, in containers: none learns an expected output, none passes a
test, and none is recorded as infrastructure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generators.task import Limits
from harness.episode import Episode, GradeStatus, StopReason
from harness.episodes import hidden_tests
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
HOSTILE = {
    "reads all it can": """
import os, sys
line = sys.stdin.read()
for top in ("/proc", "/work", "/tmp", "/dev/shm", "/home", "/root", "/var/tmp", "/run"):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read(4096)
            except OSError:
                continue
            if b"printed" in data or line.strip().encode() in data:
                print(folder, name, data[:200])
""",
    "writes a report": """
import json, os, sys
sys.stdin.read()
for name in ("report.json", "result.json", "answer.json", "/tmp/report.json"):
    with open(name, "w") as file:
        json.dump({"passed": 99, "failed": 0, "exit": 0, "ok": True}, file)
print('{"ok": true, "exit": 0, "total": 0, "seconds": 0.0, "limits": []}')
print("99 passed in 0.01s")
os._exit(0)
""",
    "writes into every descriptor": """
import os
for number in range(256):
    try:
        os.write(number, b"\\x00\\x00\\x00\\x0b\\x00\\x00\\x00\\x00{\\"ok\\":true}")
    except OSError:
        pass
""",
    "loops": "while True:\n    pass\n",
    "forks": """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "leaves a process behind": """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print("done")
""",
    "kills all": "import os, signal\nos.kill(-1, signal.SIGKILL)\n",
    "kills the server": "import os, signal\nos.kill(1, signal.SIGKILL)\nprint(0)\n",
    "takes all memory": "held = bytearray(1 << 34)\nprint(len(held))\n",
    "fills the disk": "open('big', 'wb').write(bytes(1 << 28))\n",
    "floods": "while True:\n    print('x' * 65536)\n",
    "is no program": "\0\x01 what is this?",
}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_tests, "RUN_SECONDS", 2.0)
    monkeypatch.setattr(hidden_tests, "ALL_SECONDS", 5.0)


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
    planted = call(
        (
            "execute_python",
            {
                "code": "import os, pathlib\n"
                "for place in ('/work', '/tmp', '/dev/shm'):\n"
                "    pathlib.Path(place, 'planted.txt').write_text('planted')\n"
            },
        )
    )
    program = (
        "import pathlib\n"
        "for place in ('/work', '/tmp', '/dev/shm'):\n"
        "    print(place, pathlib.Path(place, 'planted.txt').exists())\n"
    )
    episode = attempt(docker_sandboxes, [planted, *leave(program)], trusted=False, limits=LIMITS)
    assert {run.output for run in episode.program_runs} == {
        "/work False\n/tmp False\n/dev/shm False\n"
    }

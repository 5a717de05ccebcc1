"""A real model on this machine, on the real loop. Its weights are fetched where they are not there,
so this needs a network once; a machine without one leaves it out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Brief, Limits
from harness.build_model import build_model, build_plain_model
from harness.episode import Cell, Episode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.model import Message, ModelRequest, Role
from harness.models.local import WEIGHTS, LocalModel
from harness.models.text_tool_calls import TextCalls
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from registry.ledger.records import ModelPin
from study.errors import StudyError
from study.extras.tasks.fetch_weights import fetch_weights
from tests.harness.script import noon
from tests.progress import wait_until

pytestmark = [pytest.mark.slow]

SEED = Seed(bytes(32))
PIN = ModelPin("small", "local", "smollm2", (("max_tokens", "160"),))
OPENING = (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Name a colour."))


@pytest.fixture(scope="module", autouse=True)
def weights() -> Path:
    pytest.importorskip("xllamacpp")
    try:
        return fetch_weights("smollm2", print)
    except StudyError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def small() -> Iterator[TextCalls]:
    model = build_model(PIN, {})
    assert isinstance(model, TextCalls)
    yield model
    model.close()


def test_it_answers_the_same_way_twice_and_tells_its_version(small: TextCalls) -> None:
    replies = [small.respond(ModelRequest(OPENING, (), SEED)) for _ in range(2)]
    assert replies[0].message == replies[1].message
    assert replies[0].message.text
    assert replies[0].served_version == f"smollm2@{WEIGHTS['smollm2'].sha256[:12]}"
    assert replies[0].usage.output_tokens is not None


def test_a_closed_model_leaves_no_server_and_opens_again(small: TextCalls) -> None:
    small.respond(ModelRequest(OPENING, (), SEED))
    inner = small.model
    assert isinstance(inner, LocalModel)
    assert inner._server is not None
    process = inner._server.process
    small.close()
    assert process.poll() == 0
    assert small.respond(ModelRequest(OPENING, (), SEED)).message.text


def test_the_server_ends_with_a_parent_that_is_killed(weights: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; "
        "from harness.models.local import start_server;"
        f"server = start_server(Path({str(weights)!r}), 'x', 'k', 1, 512);"
        "print(server.process.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(pid, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _runs(pid))


def test_a_fetched_model_is_served_to_all_on_this_machine(weights: Path) -> None:
    command = [sys.executable, "-m", "study.main", "models", "serve", "smollm2", "--port", "8765"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        printed = yaml.safe_load(served.stdout.readline())
        settings = {
            name: json.dumps(printed[name]) for name in ("base_url", "api_key_env", "tools")
        }
        pin = ModelPin("m", printed["provider"], printed["model"], tuple(settings.items()))
        assert build_plain_model(pin).respond(ModelRequest(OPENING, (), SEED)).message.text
        served.send_signal(signal.SIGINT)
    assert served.returncode == 130


def _runs(pid: int) -> bool:
    """Whether a process is there and not only waits to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.docker
def test_it_works_through_a_whole_episode_in_a_container(
    small: TextCalls, docker_sandboxes: Any
) -> None:
    """It need not do well: what it says is read, carried out, recorded and graded."""
    instance = INSTALLED.family("compute_average").generate("easy", SEED.child("local"))
    given = instance.brief
    brief = Brief(
        given.prompt, given.assets, given.answer_schema, Limits(turns=3, output_bytes=2000)
    )
    cell = Cell("sha256:e", instance.spec, instance.id, SEED, "small", 0)
    asked = AttemptRequest(cell, 1, brief, run="r", journal=MemoryJournal())
    episode: Episode = run_attempt(asked, small, docker_sandboxes, noon)
    assert episode.error_class == ""
    # It may go on to its limit of tokens: what it says differs between processors.
    ends = (StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.TRUNCATED)
    assert episode.stop in ends
    assert 1 <= len(episode.steps) <= 4
    assert all(step.reply.raw for step in episode.steps)
    assert episode.usage.input_tokens
    assert grade_episode(instance, episode).score is not None
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode

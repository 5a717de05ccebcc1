"""Agents inside the sandbox: one program, one model over one socket, and no other way out."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from generators.seed import Seed
from generators.task import Asset, Brief, Limits, TaskSpec
from harness.agent.limits import Ceiling
from harness.agent.loop import AgentTask
from harness.agent.prompts import UNLIMITED
from harness.episode import Cell, Episode, StopReason
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.external_agents import agent_launcher
from harness.external_agents.model_proxy import ModelProxy
from harness.external_agents.program_agent import ProgramAgent, _conclude
from harness.model import ModelRequest, Reply
from harness.sandboxes.image import ensure_image
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import ExecResult, Sandbox, SandboxProvider
from harness.sandboxes.user_folder import make_user_folder
from harness.spending.purchases import Journal, MemoryJournal
from harness.storage import EPISODE_CODEC
from tests.cases import cases
from tests.harness.script import SCHEMA, Playback, noon, say

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes

MODEL = "model-7"
CSV = Asset("data.csv", "text/csv", b"1,2\n")
# An agent in twenty lines: a reply that begins with RUN is a program, any other is final.
SMALL_AGENT = cases(__file__, "small_agent")
PROGRAMS = {"small": SMALL_AGENT, "silent": "#!/bin/sh\necho no idea >&2; exit 3\n"}


def attempt(
    model: Playback,
    sandboxes: SandboxProvider,
    program: str = "small",
    limits: Limits | None = None,
    ceiling: Ceiling = UNLIMITED,
    journal: Journal | None = None,
) -> Episode:
    cell = Cell(
        "sha256:" + "e" * 64, TaskSpec("x", "1", "easy", ()), "sha256:i", Seed(bytes(32)), "m", 0
    )
    given, journal = (
        Brief("Find x.", (CSV,), SCHEMA, limits or Limits()),
        journal or MemoryJournal(),
    )
    asked = AttemptRequest(cell, 1, given, run="r", journal=journal, ceiling=ceiling)
    made = run_attempt(asked, ProgramAgent(model, MODEL, program), sandboxes, noon)
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(made)) == made, "all of it can be written down"
    return made


def run(code: str) -> Reply:
    return say(f"RUN\n{code}")


FINAL = say('So it is.\n<answer>\n{"x": 1}\n</answer>')


# --- without an engine ---


def test_the_local_sandbox_runs_no_agent() -> None:
    with pytest.raises(HarnessError, match="does not isolate"):
        attempt(Playback([], trusted=False), LocalSandboxes())
    with pytest.raises(HarnessError, match="use Docker"):
        attempt(Playback([]), LocalSandboxes())


def test_the_prompt_names_folder_limits_and_the_form_of_an_answer() -> None:
    text = ProgramAgent.show(Brief("Find x.", (), SCHEMA, Limits(turns=7)))
    assert text.startswith("Your work folder is /work")
    assert "7 model calls and 15 minutes" in text
    assert "\n\nFind x.\n\n" in text
    assert SCHEMA in text


def test_the_launcher_is_one_file_of_the_standard_library() -> None:
    source = Path(agent_launcher.__file__).read_text()
    assert "harness" not in source
    assert "\nimport " in source


def test_the_launcher_waits_for_a_socket_whose_queue_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "model.sock")

    async def connect() -> bytes:
        with socket.socket(socket.AF_UNIX) as listener, ExitStack() as waiting:
            listener.bind(path)
            listener.listen(0)
            with suppress(BlockingIOError):
                while True:
                    link = waiting.enter_context(socket.socket(socket.AF_UNIX))
                    link.setblocking(False)
                    link.connect(path)
            later = asyncio.create_task(agent_launcher.connected(path))
            await asyncio.sleep(0.2)
            assert not later.done()
            listener.accept()[0].close()
            with await later as link:
                link.send(b"x")
                received = b""
                while not received:  # those that waited before it have sent nothing
                    accepted, _ = listener.accept()
                    with accepted, suppress(BlockingIOError):
                        accepted.setblocking(False)
                        received = accepted.recv(1)
                return received

    assert asyncio.run(asyncio.wait_for(connect(), 30)) == b"x"


# --- in a container ---


@pytest.fixture(scope="module")
def sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandboxes]:
    """The sandbox image with the programs above."""
    from harness.sandboxes.docker import DockerSandboxes, build_image, connect

    folder = tmp_path_factory.mktemp("image")
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    base = ensure_image().tag
    (folder / "Dockerfile").write_text(f"FROM {base}\nCOPY {' '.join(PROGRAMS)} /opt/agents/\n")
    tag = f"{base.partition(':')[0]}:test-agents"
    build_image(connect(), tag, 600, True, path=str(folder))
    provider = DockerSandboxes(tag)
    yield provider
    provider.close()
    assert list(make_user_folder("sockets").iterdir()) == []
    connect().remove_image(tag)


@pytest.mark.docker
def test_an_agent_works_with_the_one_model_and_answers(sandboxes: DockerSandboxes) -> None:
    look = run("import os; print(sorted(os.listdir()), os.environ['OPENAI_API_KEY'], os.getuid())")
    model = Playback([look, FINAL], paid=True)
    journal = MemoryJournal()
    episode = attempt(model, sandboxes, journal=journal)
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert episode.answer == 'So it is.\n<answer>\n{"x": 1}\n</answer>\n'
    _, second = episode.steps
    assert second.prompt.startswith("['data.csv'] none 2")
    (program,) = second.uses
    assert (program.name, program.exit_code) == ("small", 0)
    assert program.result.text.strip() == "working"
    assert sorted(journal.replies) == [0, 1]
    assert (episode.replies, episode.usage.input_tokens) == (0, 2)
    assert episode.opening[0].text == ProgramAgent.show(Brief("Find x.", (), SCHEMA, Limits()))
    assert episode.image == sandboxes.image


@pytest.mark.docker
def test_an_image_without_the_program_stops_the_study(sandboxes: DockerSandboxes) -> None:
    with pytest.raises(HarnessError, match=r"no program /opt/agents/absent: build an image"):
        attempt(Playback([]), sandboxes, program="absent")


@pytest.mark.docker
def test_a_program_that_never_calls_its_model_is_scored(sandboxes: DockerSandboxes) -> None:
    episode = attempt(Playback([]), sandboxes, program="silent")
    assert (episode.stop, episode.error_class, episode.steps) == (StopReason.ANSWERED, "", ())


def test_what_a_program_leaves_without_a_call_of_its_model_is_its_answer() -> None:
    brief, no_sandbox = Brief("", (), "", Limits()), cast(Sandbox, None)
    task = AgentTask(brief, no_sandbox, Seed(bytes(32)), MemoryJournal(), time.time)
    proxy = ModelProxy(Playback([]), MODEL, task)
    run = _conclude(proxy, ExecResult(0, b"log\n--\n42", 10, 0.1), False, "quiet", b"\n--\n")
    assert (run.stop, run.answer, run.steps) == (StopReason.ANSWERED, "42", ())


@pytest.mark.docker
def test_turns_are_limited_and_what_was_written_counts(sandboxes: DockerSandboxes) -> None:
    write = run("open('answer.json', 'w').write('{\"x\": 2}')")
    episode = attempt(Playback([write] * 9), sandboxes, limits=Limits(turns=3))
    assert (episode.stop, len(episode.steps)) == (StopReason.TURN_LIMIT, 3)
    assert episode.answer_file == b'{"x": 2}'
    assert episode.steps[-1].uses[-1].exit_code == 1  # its client raised an error


@pytest.mark.docker
def test_working_time_is_limited_and_what_was_written_counts(sandboxes: DockerSandboxes) -> None:
    spin = run("open('answer.json', 'w').write('{\"x\": 2}')\nwhile True: pass")
    begun = time.monotonic()
    episode = attempt(Playback([spin]), sandboxes, limits=Limits(working_seconds=3.0))
    assert time.monotonic() - begun < 60
    assert (episode.stop, episode.answer) == (StopReason.TIME_LIMIT, "")
    assert episode.answer_file == b'{"x": 2}'
    assert episode.steps[-1].uses[-1].limits == ("time",)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("seconds", "limits", "end"),
    [
        (4, Limits(working_seconds=3.5), (StopReason.ANSWERED, "")),
        (2, Limits(wall_seconds=1.0), (StopReason.FAILED, "worker:wall_limit")),
    ],
)
def test_waiting_for_the_model_is_no_working_time_and_wall_time_is_nobodys_zero(
    sandboxes: DockerSandboxes, seconds: float, limits: Limits, end: tuple[StopReason, str]
) -> None:
    def slow(request: ModelRequest) -> Reply:
        time.sleep(seconds)
        return FINAL

    episode = attempt(Playback([slow]), sandboxes, limits=limits)
    assert (episode.stop, episode.error_class) == end


@pytest.mark.docker
def test_a_failure_of_the_provider_ends_the_program(sandboxes: DockerSandboxes) -> None:
    lost = AttemptFailed(Boundary.PROVIDER, "overload")
    sleep = run(
        "import subprocess; subprocess.Popen(['sleep', '600'], stdout=-3, stderr=-3); print('on')"
    )
    begun = time.monotonic()
    episode = attempt(Playback([sleep, lost]), sandboxes)
    assert time.monotonic() - begun < 60
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "provider:overload")
    assert len(episode.steps) == 1


# --- attacks from inside: the agent's own loss, and nothing beyond the budget ---

# Its launcher and all that it may kill, the socket closed by a flood, memory, processes.
BREAKING = cases(__file__, "breaking")
ATTACKS = cases(__file__, "attacks")


@pytest.mark.docker
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_through_the_socket_costs_nothing_but_its_own_time(
    sandboxes: DockerSandboxes, name: str
) -> None:
    code, printed = ATTACKS[name]
    model = Playback([run(code), FINAL], paid=True)
    journal, before = MemoryJournal(), memory()
    episode = attempt(model, sandboxes, journal=journal)
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert episode.steps[1].prompt == printed
    assert sorted(journal.replies) == [0, 1]
    assert memory() - before < 128 << 20


@pytest.mark.docker
@pytest.mark.parametrize("code", BREAKING.values(), ids=BREAKING)
def test_what_an_agent_breaks_is_its_own_loss(sandboxes: DockerSandboxes, code: str) -> None:
    episode = attempt(
        Playback([run(code), FINAL]), sandboxes, limits=Limits(turns=5, working_seconds=5.0)
    )
    assert episode.error_class == ""
    assert episode.stop in (StopReason.ANSWERED, StopReason.TIME_LIMIT)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.docker
def test_a_file_counts_as_for_any_model(sandboxes: DockerSandboxes) -> None:
    write = run("open('answer.json', 'w').write('{\"x\": 2}')")
    episode = attempt(Playback([write, say("see the file")]), sandboxes)
    assert (episode.answer_file, episode.answer) == (b'{"x": 2}', "see the file\n")

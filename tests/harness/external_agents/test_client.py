"""Agents behind servers of others: heard as rounds, kept to their folder or to the bridge."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import pytest

from examples.agent_server.server import Agent, main, make_server, models_of
from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset, Brief, Limits, TaskInstance
from generators.templates.family import template_family
from generators.templates.library import library_text
from harness.agent.tools import TOOLS
from harness.build_model import build_model
from harness.episode import Cell, Episode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.result import row_of, summarise_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import HarnessError
from harness.external_agents.client import AgentServer
from harness.external_agents.snapshot import holds, unpack
from harness.external_agents.stream import ChatStream, MalformedStream
from harness.external_agents.tool_bridge import MAX_BODY_BYTES, Bridge, BridgedTools
from harness.model import Model, Usage
from harness.models.scripted import SolvingAgent
from harness.models.settings import AgentServerSettings
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import SandboxProvider
from harness.spending.purchases import Journal, MemoryJournal
from harness.storage import EPISODE_CODEC, attempt_replies, reply_key
from registry.ledger.records import ModelPin
from registry.result_row import Arm
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from tests.cases import cases
from tests.harness.chat_server import Json, Line, Talk, result, running, said, stream
from tests.harness.paid_attempt import Vouched, journal_of
from tests.harness.script import ANSWER, Playback, brief, call, noon, say
from tests.progress import wait_until

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes

INSTANCE = INSTALLED.family("compute_average").generate("easy", Seed(bytes(31) + b"\1"))
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cf"
    "c0000003010100c9fe92ef0000000049454e44ae426082"
)


def cell_of(instance: TaskInstance = INSTANCE) -> Cell:
    return Cell("sha256:" + "e" * 64, instance.spec, instance.id, Seed(bytes(32)), "theirs", 0)


def agent(url: str, tree: str = "host", key: str = "", **terms: object) -> AgentServer:
    """The agent at an address; it pauses for no time before it tries again."""
    made = AgentServerSettings.make(model="model-7", base_url=url, tree=tree, **terms)
    return AgentServer("theirs", made, key, sleep=lambda seconds: None)


def attempt(
    model: AgentServer,
    sandboxes: SandboxProvider,
    given: Brief = INSTANCE.brief,
    journal: Journal | None = None,
    cell: Cell | None = None,
) -> Episode:
    journal = journal or MemoryJournal()
    asked = AttemptRequest(cell or cell_of(), 1, given, run="r", journal=journal)
    made = run_attempt(asked, model, sandboxes, noon)
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(made)) == made, "all of it can be written down"
    return made


@pytest.fixture
def vouched() -> Iterator[Vouched]:
    """Sandboxes for scripted agents, every word of which is ours."""
    made = Vouched()
    yield made
    made.close()


def with_limits(**limits: float) -> Brief:
    return brief(limits=Limits(**limits))  # type: ignore[arg-type]


@contextmanager
def small_server(model: Model, **options: object) -> Iterator[str]:
    """The server that people start from, with a model of ours."""
    served = Agent(lambda temperature, tokens: model, **options)  # type: ignore[arg-type]
    with running(make_server(served)) as url:
        yield url


def folder_in(request: Json) -> Path:
    found = re.match(r"Your work folder is (/\S+) and", request["messages"][0]["content"])
    assert found is not None
    return Path(found[1])


def work_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"dosimeter-*-{os.getpid()}-*"))


# --- both modes, with the small server ---


def test_in_a_folder_of_the_host_the_agent_solves_the_task_and_leaves_nothing(
    sandboxes: LocalSandboxes,
) -> None:
    before = work_folders()
    with small_server(SolvingAgent("honest", 0.0)) as url:
        episode = attempt(agent(url), sandboxes)
    assert episode.stop is StopReason.ANSWERED, episode.error_class
    assert grade_episode(INSTANCE, episode).score == 1.0
    row = row_of(
        summarise_episode(0, cell_of(), episode, grade_episode(INSTANCE, episode), 1), Arm.PRIVATE
    )
    assert (row.turns, row.tool_calls) == (3, 2)
    assert row.served_version == "scripted-1"
    assert [use.name for step in episode.steps for use in step.uses] == [
        "run_command",
        "execute_python",
    ]
    assert all(b'"done"' in step.reply.raw for step in episode.steps)
    opened = episode.opening[0].text
    assert opened.startswith("Your work folder is /")
    assert INSTANCE.brief.prompt in opened
    assert work_folders() == before


def test_over_the_bridge_the_agent_solves_the_task(vouched: Vouched) -> None:
    with small_server(SolvingAgent("honest", 0.0)) as url:
        episode = attempt(agent(url, "bridge"), vouched)
    check_bridged(episode)


@pytest.mark.docker
def test_over_the_bridge_the_agent_solves_the_task_in_a_container(
    docker_sandboxes: DockerSandboxes,
) -> None:
    with small_server(SolvingAgent("honest", 0.0)) as url:
        episode = attempt(agent(url, "bridge"), docker_sandboxes)
    check_bridged(episode)
    assert not episode.container.startswith("local")


def check_bridged(episode: Episode) -> None:
    assert episode.stop is StopReason.ANSWERED, episode.error_class
    assert grade_episode(INSTANCE, episode).score == 1.0
    uses = [[use.name for use in step.uses] for step in episode.steps]
    assert uses == [["run_command"], ["execute_python"], []]
    assert [use.exit_code for step in episode.steps for use in step.uses] == [0, 0]
    assert episode.steps[1].reply.message.calls[0].arguments.startswith('{"code"')
    assert "work folder is" not in episode.opening[0].text


@pytest.mark.parametrize(("name", "tree"), [("past", "host"), ("formats", "bridge")])
def test_templated_tasks_are_solved_behind_a_server(name: str, tree: str, vouched: Vouched) -> None:
    """Questions of a library template: what is said counts word for word, and what is left in
    files and folders."""
    templated = template_family(f"{name}.yml", library_text(name))
    with small_server(SolvingAgent("honest", 0.0)) as url:
        for question in templated.questions[:: 1 if "DOSIMETER_ALL_SEEDS" in os.environ else 3]:
            instance = templated.generate(question, Seed(bytes(31) + b"\7"))
            theirs, cell = agent(url, tree), cell_of(instance)
            episode = attempt(theirs, vouched, instance.brief, cell=cell)
            assert grade_episode(instance, episode).score == 1.0, (question, episode)
            assert episode.opening[0].text.endswith(instance.brief.prompt)


def test_a_server_of_others_does_not_reach_a_sandbox_that_does_not_isolate(
    sandboxes: LocalSandboxes,
) -> None:
    with pytest.raises(HarnessError, match="does not isolate"):
        attempt(agent("http://127.0.0.1:9", "bridge"), sandboxes)


def test_images_travel_over_the_bridge_into_the_servers_model(vouched: Vouched) -> None:
    model = Playback([call(("view_image", {"path": "a.png"})), say(ANSWER)], paid=True)
    with small_server(model) as url:
        attempt(agent(url, "bridge"), vouched, brief(Asset("a.png", "image/png", PNG)))
    assert model.asked[1].messages[-1].images[0].data == PNG
    assert model.asked[0].tools == TOOLS


# --- what is streamed ---


def hear(
    sandboxes: LocalSandboxes, *lines: Line, given: Brief | None = None, **terms: object
) -> Episode:
    with stream(Talk(lines)) as served:
        return attempt(agent(served.url, **terms), sandboxes, given or brief())  # type: ignore[arg-type]


def test_what_is_asked_is_the_protocol_and_no_more(sandboxes: LocalSandboxes) -> None:
    task = Brief("Count the words.", (), "")
    with stream(Talk((said("4"),))) as served:
        attempt(agent(served.url, temperature=0.5, max_output_tokens=99), sandboxes, task)
        attempt(agent(served.url, key="sk-1"), sandboxes, task)
    first, second = served.requests
    assert served.keys == [None, "Bearer sk-1"]
    assert set(first) == {"messages", "temperature", "max_output_tokens"}
    assert set(second) == {"messages"}
    folder = folder_in(first)
    assert first["messages"] == [
        {
            "role": "user",
            "content": f"Your work folder is {folder} and paths are relative to it.\n\n"
            "Count the words.",
        }
    ]


def test_rounds_become_steps_and_the_last_message_is_the_answer(sandboxes: LocalSandboxes) -> None:
    done = {"role": "assistant", "content": "", "type": "done", "model": "m-2"}
    usage = {"usage": {"input_tokens": 7, "output_tokens": 3}}
    episode = hear(
        sandboxes,
        said("I look.")[:30],  # lines are cut anywhere on their way
        said("I look.")[30:],
        result("a.txt", name="ls"),
        result("b.txt"),
        b"\n",
        said(ANSWER),
        json.dumps({"role": "debug", "content": 1}).encode() + b"\n",
        json.dumps({**done, **usage}).encode() + b"\n",
    )
    assert episode.stop is StopReason.ANSWERED
    assert episode.answer == ANSWER, "a round that says nothing is not the last message"
    assert [step.reply.message.text for step in episode.steps] == ["I look.", ANSWER]
    assert [(use.name, use.result.text) for use in episode.steps[0].uses] == [
        ("ls", "Tool result: a.txt"),
        ("tool", "Tool result: b.txt"),
    ]
    assert episode.steps[1].reply.served_version == "m-2", "of the blank message at the end"
    assert episode.usage == Usage(None, None), "not told by every round"


def test_it_is_not_heard_beyond_its_rounds(sandboxes: LocalSandboxes) -> None:
    endless = chain.from_iterable(repeat((said("more"), result("x"), 0.001), 10_000))
    episode = hear(sandboxes, *endless)
    assert episode.stop is StopReason.TURN_LIMIT
    assert len(episode.steps) == 20
    assert episode.answer == "more"
    assert all(len(step.uses) == 1 for step in episode.steps)


def test_a_server_that_ends_with_its_last_round_has_answered(sandboxes: LocalSandboxes) -> None:
    episode = hear(sandboxes, said("a"), said("b"), rounds=2)
    assert (episode.stop, episode.answer) == (StopReason.ANSWERED, "b")


def test_one_that_goes_on_past_its_own_time_is_left(sandboxes: LocalSandboxes) -> None:
    slow = chain.from_iterable(repeat((b" \n", 0.05), 10_000))
    episode = hear(sandboxes, said("so far"), *slow, seconds=3.0)
    assert (episode.stop, episode.answer) == (StopReason.TIME_LIMIT, "")
    assert len(episode.steps) == 1
    assert hear(sandboxes, said("a"), 60.0, seconds=2.0).stop is StopReason.TIME_LIMIT


def test_past_the_tasks_wall_time_it_is_missing(sandboxes: LocalSandboxes) -> None:
    episode = hear(sandboxes, said("so far"), 60.0, given=with_limits(wall_seconds=2.0))
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "worker:wall_limit")
    assert len(episode.steps) == 1


@pytest.mark.parametrize(
    ("lines", "steps", "error"),
    [
        ((said("a"), 60.0), 1, "timeout"),  # stalls in the stream, and before it
        ((60.0,), 0, "timeout"),
        ((said("a"), b"[1]\n"), 1, "malformed"),
        ((b'{"content": "a"}\n',), 0, "malformed"),
        ((b'{"role": "tool_call", "content": 5}\n',), 0, "malformed"),
        ((b"[" * 100_000 + b"\n",), 0, "malformed"),
        ((b"<!DOCTYPE html>\n<p>Hi",), 0, "malformed"),
        ((b"data: [DONE]\n\n",), 0, "malformed"),
        ((), 0, "malformed"),
        ((said("a"), said("b")[:40]), 1, "connection"),  # half a line
        ((said("a"), said("b").split(b"\n")[0] + b"\n"), 2, "connection"),
    ],
)
def test_a_broken_stream_fails_the_attempt_with_what_came_of_it(
    sandboxes: LocalSandboxes, lines: tuple[Line, ...], steps: int, error: str
) -> None:
    before = work_folders()
    with stream(Talk(lines)) as served:
        patience = 2.0 if error == "timeout" else 60.0
        episode = attempt(agent(served.url, silence_seconds=patience), sandboxes, brief())
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, f"provider:{error}")
    assert len(episode.steps) == steps
    assert len(served.requests) == 1, "nothing is bought twice"
    assert work_folders() == before


def framed(lines: bytes) -> bytes:
    """The lines as server-sent events."""
    return b"".join(b"data: " + line + b"\n\n" for line in lines.splitlines())


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((framed(said("a") + result("x") + said("b")), b"data: [DONE]"), id="framed"),
        pytest.param((b": hello\n", said("a"), result("x"), b":\n\n", said("b")), id="comments"),
        pytest.param((b"{oops}\nup\n", said("a"), result("x"), said("b"), b"bye"), id="stray"),
        pytest.param((said("a"), result("x"), said("b"), said(" \n")), id="blank at the end"),
    ],
)
def test_a_stream_is_read_as_the_original_reads_it(
    sandboxes: LocalSandboxes, lines: tuple[Line, ...]
) -> None:
    with stream(Talk(lines)) as served:
        episode = attempt(agent(served.url), sandboxes, brief())
    assert (episode.stop, episode.answer) == (StopReason.ANSWERED, "b"), episode.error_class
    assert [step.reply.message.text for step in episode.steps] == ["a", "b"]
    assert [len(step.uses) for step in episode.steps] == [1, 0]


def test_a_blank_message_that_called_tools_is_a_round_and_none_loses_its_usage() -> None:
    heard = ChatStream(5)
    used = {"role": "assistant", "content": "", "type": "done", "usage": {"input_tokens": 3}}
    heard.take(said("") + result("x") + said("b") + json.dumps(used).encode() + b"\n")
    assert heard.end()
    assert [each.text for each in heard.rounds] == ["", "b"]
    assert len(heard.rounds[1].lines) == 3
    assert heard.rounds[1].usage == Usage(), "unknown, as the usage of one of the two is"
    alone = ChatStream(5)
    alone.take(json.dumps(used).encode())
    assert alone.end()
    assert [each.usage.input_tokens for each in alone.rounds] == [3]


def test_a_stream_that_is_packed_is_not_unpacked(sandboxes: LocalSandboxes) -> None:
    """A few bytes may unpack to more than memory holds."""
    packed = Talk((gzip.compress(said(ANSWER)),), headers=(("Content-Encoding", "gzip"),))
    with stream(packed) as served:
        assert attempt(agent(served.url), sandboxes, brief()).error_class == "provider:malformed"


@pytest.mark.parametrize("rest", [b'{"role": "tool_c', b'{"content": "a"}\n', b"[]\n" + said("b")])
def test_what_comes_after_the_last_round_breaks_nothing_then_or_after_a_crash(
    sandboxes: LocalSandboxes, rest: bytes
) -> None:
    journal = MemoryJournal()
    with stream(Talk((said("a"), result("x"), rest))) as served:
        first = attempt(agent(served.url, rounds=1), sandboxes, brief(), journal)
    again = attempt(agent("http://127.0.0.1:9", rounds=1), sandboxes, brief(), journal)
    for episode in (first, again):
        assert (episode.stop, episode.answer) == (StopReason.TURN_LIMIT, "a")
        assert [len(step.uses) for step in episode.steps] == [1]


def test_a_line_in_small_pieces_is_not_read_over_and_over() -> None:
    text = "x" * (8 << 20)
    line = said(text)
    heard = ChatStream(5)
    begun = process_time()
    for at in range(0, len(line), 1024):
        heard.take(line[at : at + 1024])
    assert process_time() - begun < 10, "it took minutes"
    assert heard.rounds[0].text == text


def test_a_stream_that_is_cut_is_not_asked_for_again(sandboxes: LocalSandboxes) -> None:
    with stream(Talk((said("a"), 0.05), reset=True)) as served:
        episode = attempt(agent(served.url), sandboxes, brief())
    assert episode.error_class == "provider:connection"
    assert len(served.requests) == len(episode.steps) == 1


@pytest.mark.parametrize(("status", "error", "asked"), cases(__file__, "refusals"))
def test_a_refusal_is_classed_and_tried_again_where_that_may_help(
    sandboxes: LocalSandboxes, status: int, error: str, asked: int
) -> None:
    secret = json.dumps({"error": "SECRET PROMPT quoted back"}).encode()
    with stream(Talk((secret,), status)) as served:
        episode = attempt(agent(served.url, retries=2), sandboxes, brief())
    assert episode.error_class == f"provider:{error}"
    assert len(served.requests) == asked
    assert b"SECRET" not in EPISODE_CODEC.encode(episode)


def test_a_server_that_comes_back_before_its_first_byte_loses_nothing(
    sandboxes: LocalSandboxes,
) -> None:
    with stream(Talk(status=503), Talk(status=429), Talk((said(ANSWER),))) as served:
        episode = attempt(agent(served.url), sandboxes, brief())
    assert (episode.stop, episode.answer) == (StopReason.ANSWERED, ANSWER)
    assert episode.steps[0].reply.retries == 2


def test_what_is_to_wait_for_longer_than_the_task_has_time_is_not_waited_for(
    sandboxes: LocalSandboxes,
) -> None:
    busy = Talk(status=429, headers=(("Retry-After", "60"),))
    with stream(busy) as served:
        episode = attempt(agent(served.url, seconds=30.0), sandboxes, brief())
    assert (episode.error_class, len(served.requests)) == ("provider:rate_limit", 1)


def test_a_folder_or_a_link_is_a_change_too(tmp_path: Path) -> None:
    asset = Asset("in/a.txt", "text/plain", b"abc")
    assert holds(tmp_path, ())
    (tmp_path / "in").mkdir()
    assert not holds(tmp_path, ())
    (tmp_path / "in/a.txt").write_bytes(b"abc")
    assert holds(tmp_path, (asset,))
    (tmp_path / "link").symlink_to("/")
    assert not holds(tmp_path, (asset,))


def test_what_was_begun_is_not_begun_again_in_the_same_folder(sandboxes: LocalSandboxes) -> None:
    def work(request: Json) -> None:
        (folder_in(request) / "half.txt").write_text("done")

    given = brief(Asset("in/a.txt", "text/plain", b"abc"))
    with stream(Talk(status=503, before=work), Talk((said(ANSWER),))) as served:
        assert attempt(agent(served.url), sandboxes, given).error_class == "provider:overload"
        assert len(served.requests) == 1
    with stream(Talk(status=503), Talk((said(ANSWER),))) as served:
        assert attempt(agent(served.url), sandboxes, given).answer == ANSWER


def use_bridge(request: Json, name: str, **arguments: str) -> int:
    named = Address(**request["tools"])
    return ask(named, "POST", f"/tools/{name}", json.dumps(arguments).encode())[0]


KILL = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [("print(1)", 200, "provider:overload"), (KILL, 410, "sandbox:server gone")],
    ids=["was used", "lost the sandbox"],
)
def test_nor_over_the_bridge_once_a_tool(
    code: str, status: int, error: str, vouched: Vouched
) -> None:
    def use(request: Json) -> None:
        used.append(use_bridge(request, "execute_python", code=code))

    used: list[int] = []
    with stream(Talk(status=503, before=use), Talk((said(ANSWER),))) as served:
        episode = attempt(agent(served.url, "bridge"), vouched)
    assert used == [status]
    assert (episode.error_class, len(served.requests)) == (error, 1)


def test_a_sandbox_that_is_lost_on_the_way_fails_the_attempt(vouched: Vouched) -> None:
    statuses: list[int] = []

    def kill(request: Json) -> None:
        statuses.append(use_bridge(request, "execute_python", code=KILL))
        statuses.append(use_bridge(request, "run_command", command="ls"))

    with stream(Talk((said("I try."), kill, said("So be it.")))) as served:
        episode = attempt(agent(served.url, "bridge"), vouched)
    assert statuses == [410, 410]
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "sandbox:server gone")
    assert [step.reply.message.text for step in episode.steps] == ["I try.", "So be it."]


def test_nobody_at_the_address_is_a_lost_connection(sandboxes: LocalSandboxes) -> None:
    episode = attempt(agent("http://127.0.0.1:9", retries=1), sandboxes, brief())
    assert episode.error_class == "provider:connection"


def test_surrogates_and_floods_are_no_way_to_end_a_sweep() -> None:
    heard = ChatStream(5)
    heard.take(b'{"role": "assistant", "type": "chunk", "content": "\\ud800"}\n')
    assert heard.rounds[0].text == "?"
    with pytest.raises(MalformedStream, match="line 2 has more than 16,777,216 bytes"):
        heard.take(b"x" * ((16 << 20) + 1))
    flood = ChatStream(5)
    flood.bytes = 64 << 20
    with pytest.raises(MalformedStream, match="more than 67,108,864 bytes"):
        flood.take(b"x")


# --- the folder on the host ---


def leaving(act: Callable[[Path], None]) -> Talk:
    return Talk((lambda request: act(folder_in(request)), said("It is done.")))


def test_the_folder_is_private_and_holds_the_input_files(sandboxes: LocalSandboxes) -> None:
    seen: list[object] = []

    def look(folder: Path) -> None:
        seen.extend((folder.stat().st_mode & 0o777, (folder / "in/a.txt").read_bytes()))
        (folder / "answer.json").write_text('{"x": 1}')

    with stream(leaving(look)) as served:
        given = brief(Asset("in/a.txt", "text/plain", b"abc"))
        episode = attempt(agent(served.url), sandboxes, given)
    assert seen == [0o700, b"abc"]
    assert episode.answer_file == b'{"x": 1}'
    assert not folder_in(served.requests[0]).exists()


def test_links_out_of_the_folder_are_not_followed(
    sandboxes: LocalSandboxes, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"x": 666}')

    def link(folder: Path) -> None:
        (folder / "answer.json").symlink_to(secret)
        (folder / "out").symlink_to(tmp_path)
        os.link(secret, folder / "hard.json")

    journal = MemoryJournal()
    with stream(leaving(link)) as served:
        episode = attempt(agent(served.url), sandboxes, brief(), journal)
        bare = Brief("x", (), "", collect=("out/secret.json", "answer.json", "hard.json", "out"))
        collected = attempt(agent(served.url), sandboxes, bare)
    assert episode.stop is StopReason.ANSWERED
    assert episode.answer_file is None
    assert collected.answer_files == ()
    assert b"666" not in EPISODE_CODEC.encode(episode) + EPISODE_CODEC.encode(collected)
    assert unpack(journal.replies[0].raw).tree == ()
    assert secret.exists()


def test_a_folder_that_goes_deeper_than_the_stack_is_removed_all_the_same(
    sandboxes: LocalSandboxes,
) -> None:
    def dig(folder: Path) -> None:
        here = os.open(folder, os.O_RDONLY)
        for _ in range(1_500):
            os.mkdir("a", dir_fd=here)
            below = os.open("a", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)

    journal = MemoryJournal()
    with stream(leaving(dig)) as served:
        episode = attempt(agent(served.url), sandboxes, brief(), journal)
    assert episode.answer == "It is done."
    assert not journal.replies, "too deep to keep"
    assert not folder_in(served.requests[0]).exists()


def test_killing_the_worker_leaves_no_folder(tmp_path: Path) -> None:
    """kill -9 in the middle of an episode, of the worker and of the tool server in the folder."""
    program = (
        "import sys; from tests.harness.external_agents.test_client import *\n"
        "attempt(agent(sys.argv[1]), LocalSandboxes(), brief())"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with stream(Talk((60.0, said("never")))) as served:
        worker = subprocess.Popen([sys.executable, "-c", program, served.url], env=environment)
        wait_until(lambda: bool(served.requests) or worker.poll() is not None)
        (folder,) = tmp_path.glob("dosimeter-*")
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
        for pid in (*map(int, children), worker.pid):
            os.kill(pid, signal.SIGKILL)
        worker.wait()
    assert folder.exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        wait_until(lambda: not Path(f"/proc/{worker.pid}").exists())
        agent(served.url)
    assert not folder.exists()


# --- what is paid for is kept ---


def test_after_a_crash_the_conversation_is_not_bought_again_and_the_folder_is_as_it_was(
    sandboxes: LocalSandboxes,
) -> None:
    def work(folder: Path) -> None:
        (folder / "gone.txt").unlink()
        (folder / "made/empty").mkdir(parents=True)
        (folder / "made/out.bin").write_bytes(b"\0\1\2")

    given = Brief(
        "Work.",
        (Asset("gone.txt", "text/plain", b"x"), Asset("in/kept.txt", "text/plain", b"y")),
        "",
        collect=("gone.txt", "made/empty", "made/out.bin", "in/kept.txt"),
    )
    store, (identity, recipient) = MemoryStore(), new_identity()
    journal = journal_of(store, "sha256:" + "e" * 64, recipient, identity)
    with stream(leaving(work)) as served:
        first = attempt(agent(served.url), sandboxes, given, journal)
    assert store.exists(reply_key(attempt_replies("sha256:" + "e" * 64, 1), 0))
    again = attempt(agent("http://127.0.0.1:9"), sandboxes, given, journal)  # nobody there
    assert again.answer == first.answer == "It is done."
    assert again.answer_files == first.answer_files
    assert dict(first.answer_files) == {
        "made/empty/": b"",
        "made/out.bin": b"\0\1\2",
        "in/kept.txt": b"y",
    }
    assert [step.seconds for step in again.steps] == [step.seconds for step in first.steps]


def test_after_a_crash_the_calls_of_the_bridge_are_carried_out_again(vouched: Vouched) -> None:
    journal = MemoryJournal()
    write = {"path": "answer.json", "content": '{"x": 1}'}
    model = Playback([call(("write_file", write)), say("See the file.")])
    with small_server(model) as url:
        first = attempt(agent(url, "bridge"), vouched, brief(), journal)
    again = attempt(agent("http://127.0.0.1:9", "bridge"), vouched, brief(), journal)
    assert again.answer_file == first.answer_file == b'{"x": 1}'
    texts = [
        [use.result.text for step in each.steps for use in step.uses] for each in (first, again)
    ]
    assert texts[0] == texts[1] == ["Wrote 8 bytes."]
    assert len(model.asked) == 2


def test_a_failed_conversation_is_had_again(sandboxes: LocalSandboxes) -> None:
    journal = MemoryJournal()
    with stream(Talk((said("a"), b"[]\n")), Talk((said("b"),))) as served:
        assert attempt(agent(served.url), sandboxes, brief(), journal).stop is StopReason.FAILED
        assert attempt(agent(served.url), sandboxes, brief(), journal).answer == "b"


# --- the bridge by itself ---


@contextmanager
def bridged(
    sandboxes: LocalSandboxes, max_calls: int = 10, limits: Limits | None = None
) -> Iterator[BridgedTools]:
    with sandboxes.open((), Limits(tool_seconds=5)) as sandbox:
        tools = BridgedTools(sandbox, limits or Limits(), max_calls, time.monotonic)
        with Bridge().serve(tools):
            yield tools


@dataclass(frozen=True)
class Address:
    """What a server is told of the bridge."""

    url: str
    token: str


def send(
    url: str, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, bytes]:
    link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        link.request(method, path, body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def ask(
    tools: BridgedTools | Address, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Json]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Authorization": f"Bearer {tools.token}"} | given
    status, told = send(tools.url, method, path, body, named)
    return status, json.loads(told)


def test_the_bridge_tells_and_carries_out_the_tools_for_who_holds_the_token(
    sandboxes: LocalSandboxes, capfd: pytest.CaptureFixture[str]
) -> None:
    with bridged(sandboxes) as tools:
        status, told = ask(tools, "GET", "/tools")
        assert (status, [each["name"] for each in told["tools"]]) == (200, [t.name for t in TOOLS])
        write = json.dumps({"path": "a.txt", "content": "abc"}).encode()
        assert ask(tools, "POST", "/tools/write_file", write)[1]["text"] == "Wrote 3 bytes."
        status, read = ask(tools, "POST", "/tools/read_file", b'{"path": "a.txt"}')
        assert (status, read) == (200, {"text": "abc", "images": []})
        bad = ask(tools, "POST", "/tools/read_file", b"\xff")
        assert (bad[0], bad[1]["text"][:6]) == (200, "Error:")
        assert "no tool" in ask(tools, "POST", "/tools/rm", b"{}")[1]["text"]
        assert len(tools.calls) == len(tools.uses) == 4
    assert capfd.readouterr() == ("", ""), "nothing is logged"


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer ", "Basic x", "Bearer \xff\xfe"])
def test_without_the_token_the_bridge_tells_nothing(sandboxes: LocalSandboxes, given: str) -> None:
    with bridged(sandboxes) as tools:
        for method, path in (("GET", "/tools"), ("GET", "/"), ("POST", "/tools/run_command")):
            status, told = ask(tools, method, path, Authorization=given)
            assert (status, set(told)) == (401, {"error"})
        assert tools.calls == []


def test_the_bridge_reads_no_more_than_a_call_may_hold(sandboxes: LocalSandboxes) -> None:
    with bridged(sandboxes) as tools:
        for length, status in ((str(MAX_BODY_BYTES + 1), 413), ("9" * 30, 413), ("-1", 411)):
            assert ask(tools, "POST", "/tools/x", b"", Content_Length=length)[0] == status


def test_tools_close_when_the_working_time_is_used_up(sandboxes: LocalSandboxes) -> None:
    with bridged(sandboxes, limits=Limits(working_seconds=0.2)) as tools:
        slow = json.dumps({"code": "import time; time.sleep(0.4)"})
        assert tools.use("execute_python", slow) is not None
        assert tools.use("execute_python", slow) is None


def test_a_token_is_of_one_episode_and_dies_with_it(sandboxes: LocalSandboxes) -> None:
    bridge = Bridge()
    with sandboxes.open((), Limits()) as one, sandboxes.open((), Limits()) as other:
        first, second = (BridgedTools(each, Limits(), 9, lambda: 0.0) for each in (one, other))
        with bridge.serve(second):
            with bridge.serve(first):
                assert first.url == second.url
                assert first.token != second.token
                write = b'{"path": "a.txt", "content": "of the first"}'
                assert ask(first, "POST", "/tools/write_file", write)[0] == 200
            assert ask(first, "GET", "/tools")[0] == 401
            read = ask(second, "POST", "/tools/read_file", b'{"path": "a.txt"}')
            assert read[1]["text"].startswith("Refused: no such file")
        with pytest.raises(ConnectionRefusedError):
            ask(second, "GET", "/tools")


def test_the_bridge_closes_after_its_calls(sandboxes: LocalSandboxes) -> None:
    with bridged(sandboxes, max_calls=1) as tools:
        assert ask(tools, "POST", "/tools/run_command", b'{"command": "ls"}')[0] == 200
        assert ask(tools, "POST", "/tools/run_command", b'{"command": "ls"}')[0] == 410


def hail(tools: BridgedTools) -> socket.socket:
    host, _, port = tools.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_the_bridges_patience_has_an_end(
    sandboxes: LocalSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a request that comes byte by byte, its head or its body."""
    monkeypatch.setattr("harness.external_agents.tool_bridge.DeadlineHandler.seconds", 0.5)
    with bridged(sandboxes) as tools:
        head = f"POST /tools/run_command HTTP/1.1\r\nAuthorization: Bearer {tools.token}\r\n"
        for begun in ("GET /tools HTTP/1.1\r\nX: ", f"{head}Content-Length: 100000\r\n\r\n"):
            with hail(tools) as link:
                link.sendall(begun.encode())
                wait_until(lambda link=link: hung_up(link, b"x"))
        assert ask(tools, "GET", "/tools")[0] == 200
        assert tools.calls == []


def hung_up(link: socket.socket, more: bytes) -> bool:
    try:
        link.sendall(more)
    except OSError:
        return True
    return False


def test_half_a_request_is_no_call(sandboxes: LocalSandboxes) -> None:
    with bridged(sandboxes) as tools, hail(tools) as link:
        link.sendall(
            f"POST /tools/run_command HTTP/1.1\r\nAuthorization: Bearer {tools.token}\r\n"
            'Content-Length: 100\r\n\r\n{"command": "ls"}'.encode()
        )
        link.shutdown(socket.SHUT_WR)
        assert link.recv(1) == b"", "it is hung up on without an answer"
        assert (tools.calls, tools.touched) == ([], False)


def test_the_bridge_takes_so_many_connections(
    sandboxes: LocalSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.external_agents.tool_bridge.MAX_CONNECTIONS", 2)
    with bridged(sandboxes) as tools:
        with hail(tools), hail(tools), hail(tools) as third:
            assert third.recv(1) == b""
        wait_until(lambda: answers(tools))


def answers(tools: BridgedTools) -> bool:
    try:
        return ask(tools, "GET", "/tools")[0] == 200
    except OSError:
        return False


def test_an_address_that_is_taken_is_told() -> None:
    with stream(Talk()) as served:
        port = int(served.url.rpartition(":")[2])
        tools = BridgedTools(None, Limits(), 1, lambda: 0.0)  # type: ignore[arg-type]
        with pytest.raises(HarnessError, match=f"127.0.0.1:{port}: Address already in use"):
            Bridge(port=port).serve(tools).__enter__()


# --- the small server ---


def post(url: str, body: object) -> tuple[int, bytes]:
    return send(url, "POST", "/api/chat", json.dumps(body).encode(), {})


def hello(text: str = "hello") -> Json:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(("body", "reason"), cases(__file__, "bad_requests"))
def test_a_bad_request_is_told_before_anything_is_streamed(body: object, reason: str) -> None:
    with small_server(Playback([say("hi")])) as url:
        status, told = post(url, body)
    assert status == 400
    assert reason in json.loads(told)["error"]


def test_the_small_server_streams_one_object_a_line() -> None:
    with small_server(Playback([say("hi", tokens=4)])) as url:
        status, told = post(url, hello())
    lines = [json.loads(line) for line in told.splitlines()]
    assert status == 200
    assert [(line["role"], line["type"], line["content"]) for line in lines] == [
        ("assistant", "chunk", "hi"),
        ("assistant", "done", ""),
    ]
    assert lines[1]["usage"] == {"input_tokens": 4, "output_tokens": 4}


def test_it_runs_no_foreign_models_programs_on_the_host_unless_told_to(
    sandboxes: LocalSandboxes,
) -> None:
    def foreign() -> Playback:
        return Playback([call(("run_command", {"command": "ls"})), say(ANSWER)], trusted=False)

    with small_server(foreign()) as url:
        assert attempt(agent(url), sandboxes, brief()).error_class == "provider:bad_request"
    with small_server(foreign(), unisolated=True) as url:
        assert attempt(agent(url), sandboxes, brief()).answer == ANSWER


def test_it_stops_at_its_rounds_and_fails_as_a_server_does(sandboxes: LocalSandboxes) -> None:
    endless = [call(("run_command", {"command": "ls"}))] * 3
    with small_server(Playback(endless), rounds=3) as url:
        assert len(attempt(agent(url), sandboxes, brief()).steps) == 3
    with small_server(Playback([*endless[:1], RuntimeError("bug")])) as url:
        cut = attempt(agent(url), sandboxes, brief())
    assert (cut.error_class, len(cut.steps)) == ("provider:connection", 1)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_it_is_started_from_the_command_line(number: signal.Signals) -> None:
    program = [sys.executable, "-m", "examples.agent_server.server", "--provider", "scripted"]
    listening = [*program, "--setting", "agent=trivial", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(listening, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            status, told = post(server.stdout.readline().strip(), hello())
            server.send_signal(number)
            assert server.wait(30) == 0
        finally:
            server.kill()
    assert status == 200
    assert b"<answer>" in told
    wrong = subprocess.run([*program, "--setting", "agent=odd"], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: model 'agent': setting 'agent': \"odd\": ")


def test_it_tells_that_it_failed_and_not_on_what(capfd: pytest.CaptureFixture[str]) -> None:
    with small_server(Playback([RuntimeError("PRIVATE")])) as url:
        assert post(url, hello()) == (500, b'{"error": "the server failed: RuntimeError"}')
    assert capfd.readouterr() == ("", "")


def test_it_serves_no_agent_that_has_a_loop_of_its_own() -> None:
    with pytest.raises(HarnessError, match="loop of its own"):
        models_of(
            ModelPin("x", "agent_server", "v", (("base_url", '"http://h"'), ("tree", '"host"')))
        )


# --- from a pin ---

SETTINGS = {"base_url": "http://127.0.0.1:8765", "tree": "bridge"}


def pin(**settings: object) -> ModelPin:
    given = {key: value for key, value in {**SETTINGS, **settings}.items() if value is not None}
    return ModelPin(
        "theirs", "agent_server", "m", tuple((key, json.dumps(given[key])) for key in sorted(given))
    )


def test_an_agent_server_is_built_from_its_pin() -> None:
    built = build_model(pin(rounds=5, api_key_env="KEY"), {"KEY": "sk-secret"})
    assert isinstance(built, AgentServer)
    assert built.folders is None
    assert "sk-secret" not in repr(built)
    with pytest.raises(HarnessError, match="KEY holds what no HTTP header can carry") as caught:
        build_model(pin(api_key_env="KEY"), {"KEY": "sk-\u00e9"})
    assert "sk-" not in str(caught.value)
    host = build_model(pin(tree="host"))
    assert isinstance(host, AgentServer)
    assert host.folders is not None


def test_it_has_at_least_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])
    assert "'0': give a whole number from 1" in capsys.readouterr().err

"""Hostile agents through the whole path of an episode, in containers: what they are told, what is
recorded, and that neither the host nor a neighbour notices."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest
import requests

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Limits, TaskSpec
from harness.agent.caps import MAX_TEXT_CHARS
from harness.episode import Cell, Episode, GradeStatus, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.result import RESULT_CODEC, EpisodeResult, summarise_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.model import Model, Reply
from harness.models.scripted import SolvingAgent
from harness.sandboxes.docker import DockerSandboxes, connect
from harness.sandboxes.image import ensure_image
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from registry.result_row import Status
from tests.cases import cases
from tests.harness.sandboxes.attacks import command, python
from tests.harness.script import Playback, call, noon, say

pytestmark = pytest.mark.docker

SEED = Seed(bytes(range(32)))
INSTANCE = INSTALLED.family("compute_average").generate("easy", SEED)
LIMITS = Limits(
    turns=8,
    tool_seconds=2.0,
    working_seconds=90.0,
    memory_bytes=96 << 20,
    disk_bytes=16 << 20,
    processes=32,
    output_bytes=4096,
)
PATIENT = replace(LIMITS, tool_seconds=60.0)  # the same pool, on a busy machine
ROOMY = replace(PATIENT, disk_bytes=64 << 20)  # room for 16,384 names
CANARY = "canary-4c1f0e, do not touch"
RUN = "hostile"


@dataclass(frozen=True)
class Played:
    """One episode as it is stored, its result, and all that the agent was told by its tools."""

    episode: Episode
    result: EpisodeResult
    told: str


def play(provider: DockerSandboxes, model: Model, limits: Limits) -> Played:
    """Run, store, read back, grade and sum up one episode, as a worker does."""
    spec = TaskSpec("compute_average", "1", "easy", ())
    cell = Cell("sha256:" + "e" * 64, spec, INSTANCE.id, SEED, model.name, 0)
    brief = replace(INSTANCE.brief, limits=limits)
    journal = MemoryJournal()
    made = run_attempt(
        AttemptRequest(cell, 1, brief, run=RUN, journal=journal), model, provider, noon
    )
    episode = EPISODE_CODEC.decode(EPISODE_CODEC.encode(made))
    result = summarise_episode(0, cell, episode, grade_episode(INSTANCE, episode), 1)
    uses = [use for step in episode.steps for use in step.uses]
    told = "\n".join(use.result.text for use in uses)
    return Played(episode, RESULT_CODEC.decode(RESULT_CODEC.encode(result)), told)


def attack(provider: DockerSandboxes, *turns: Reply, limits: Limits = LIMITS) -> Played:
    """An episode of an agent that does this and then gives up."""
    return play(provider, Playback([*turns, *[say("Done.")] * 2], "hostile", trusted=False), limits)


@dataclass(frozen=True)
class Host:
    canary: Path
    processes: int  # when the tests began
    free: int  # bytes of the temp folder
    most: list[int]  # processes seen while they ran


def count_processes() -> int:
    return sum(name.isdigit() for name in os.listdir("/proc"))


def containers() -> list[str]:
    client = connect()
    try:
        found = client.containers(all=True, filters={"label": f"dosimeter.run={RUN}"})
        return [str(container["Id"]) for container in found]
    finally:
        client.close()


@pytest.fixture(scope="module", autouse=True)
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The machine, watched: after all the attacks it is as it was."""
    canary = tmp_path_factory.mktemp("host") / "canary.txt"
    canary.write_text(CANARY)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    seen = Host(canary, count_processes(), free, [])
    stop = threading.Event()

    def watch() -> None:
        ended = False
        while not ended:
            seen.most.append(count_processes())
            ended = stop.wait(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", CANARY)
        yield seen
    stop.set()
    watcher.join()
    assert canary.read_text() == CANARY
    assert os.listdir(canary.parent) == ["canary.txt"]
    # Others work on this machine too; an unbounded bomb would pass these in a second.
    assert max(seen.most) < seen.processes + 400
    assert seen.free - shutil.disk_usage(tempfile.gettempdir()).free < 1 << 30


@pytest.fixture(scope="module", params=["runc", pytest.param("runsc", marks=pytest.mark.slow)])
def provider(request: pytest.FixtureRequest, host: Host) -> Iterator[DockerSandboxes]:
    client = connect()
    known = client.info()["Runtimes"]
    client.close()
    if request.param not in known:
        pytest.skip(f"the engine has no runtime {request.param}")
    opened = DockerSandboxes(ensure_image().tag, warm=2, run=RUN, runtime=request.param)
    yield opened
    opened.close()
    assert containers() == [], "none is left after close"


@pytest.fixture(scope="module")
def guest(provider: DockerSandboxes) -> bool:
    """Whether the sandboxes' kernel is one of their own: gVisor's, which promises less inside."""
    return provider.runtime != "runc"


@dataclass(frozen=True)
class Attack:
    """What an agent does, which limits are recorded of it, and words of its replies from tools."""

    turns: tuple[Reply, ...]
    hits: str
    told: tuple[str, ...]
    limits: Limits = LIMITS


@dataclass(frozen=True)
class Differs:
    """What is recorded and told where the kernel is gVisor's (Debian's, of 2022), and why that is
    another thing. ``hits`` may be any of several."""

    why: str
    hits: tuple[str, ...]
    told: tuple[str, ...]


_PACES = {
    "": LIMITS,
    "patient": PATIENT,
    "roomy": ROOMY,
    "brief": replace(LIMITS, tool_seconds=5.0, turns=15),
}


def _whole(given: Any) -> Any:
    """A text of the table; a list is its parts, each a text, or a text and how often it comes."""
    if isinstance(given, dict):
        return {key: _whole(value) for key, value in given.items()}
    parts = [given] if isinstance(given, str) else given
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)


def _turn(made: dict[str, Any]) -> Reply:
    """A turn of the table: a program, a command line, or calls of tools."""
    ((kind, what),) = made.items()
    if kind == "calls":
        return call(*((name, _whole(arguments)) for name, arguments in what))
    return {"python": python, "command": command}[kind](_whole(what))


ATTACKS = {
    name: Attack(
        tuple(map(_turn, made["turns"])),
        made["hits"],
        tuple(made["told"]),
        _PACES[made.get("limits", "")],
    )
    for name, made in cases(__file__, "attacks").items()
}
GUESTS = {
    name: Differs(made["why"], tuple(made["hits"]), tuple(made["told"]))
    for name, made in cases(__file__, "guests").items()
}


def work_honestly(provider: DockerSandboxes) -> Played:
    return play(provider, SolvingAgent("honest", 0.0), PATIENT)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_told_and_recorded_and_a_neighbour_works_on(
    provider: DockerSandboxes, guest: bool, name: str
) -> None:
    made = ATTACKS[name]
    differs = GUESTS.get(name) if guest else None
    with ThreadPoolExecutor(1) as beside:
        neighbour = beside.submit(work_honestly, provider)
        played = attack(provider, *made.turns, limits=made.limits)
        honest = neighbour.result().result
    hits, told = (differs.hits, differs.told) if differs else ((made.hits,), made.told)
    assert played.result.limits_hit in hits, played.told[-2000:]
    for words in told:
        assert words in played.told
    assert ("WORKED" in played.told) is (guest and name == "mounts")
    assert "root:x:" not in played.told
    assert (played.episode.stop, played.episode.error_class) == (StopReason.ANSWERED, "")
    assert (played.result.status, played.result.score) == (Status.MODEL_FAILURE, 0.0)
    assert played.result.turns == len(made.turns) + 2  # the last is asked for its answer again
    assert (honest.status, honest.score, honest.limits_hit) == (Status.SCORED, 1.0, "")


def test_the_environment_tells_nothing_of_the_host(
    provider: DockerSandboxes, guest: bool, host: Host
) -> None:
    look = f"""
import glob, os
def show(path):
    try:
        print(path, open(path, 'rb').read().decode('utf-8', 'replace'))
    except OSError as error:
        print(path, 'closed:', error.strerror)
print(dict(os.environ))
for path in ('/proc/1/environ', '/proc/self/environ', '/proc/1/cwd', '/etc/hosts', '/etc/hostname',
             '/etc/resolv.conf', '/proc/sys/kernel/hostname', {str(host.canary)!r}):
    show(path)
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/run/**', recursive=True):
    if os.path.isfile(path):
        show(path)
print(os.listdir('/work'))
"""
    played = attack(provider, python(look), limits=replace(LIMITS, output_bytes=1 << 20))
    # gVisor does not close it: what it holds is the image's, as the searches below show.
    assert guest or "/proc/1/environ closed: Permission denied" in played.told
    assert f"{host.canary} closed: No such file" in played.told
    assert "bytes left out" not in played.told
    told = played.told.replace(str(host.canary), "")
    secrets = (CANARY, "API_KEY", socket.gethostname(), str(Path(__file__).parents[2]))
    assert [secret for secret in secrets if secret in told] == []


def test_a_work_folder_that_is_turned_upside_down_stays_confined(provider: DockerSandboxes) -> None:
    upset = cases(__file__, "upset")
    files = call(
        ("read_file", {"path": "a/passwd"}), ("write_file", {"path": "new", "content": "x"})
    )
    close = python("import os; os.chmod('/work', 0)")
    played = attack(provider, python(upset), files, close, files, python("print('on')"))
    assert "WORKED" not in played.told
    _, before, _, after, on = (
        [use.result.text for use in step.uses] for step in played.episode.steps[:5]
    )
    assert before[0].startswith("Refused: a part of the path is not a folder")
    assert before[1].startswith("Wrote 1 bytes.")
    assert all(text.startswith("Refused: not permitted") for text in after)
    assert on[0].startswith("cannot run it: Permission denied")  # it locked itself out
    assert (played.episode.stop, played.result.error_class) == (StopReason.ANSWERED, "")


# --- what is handed in ---

FILES = cases(__file__, "files")


@pytest.mark.parametrize("name", FILES)
def test_an_answer_file_that_is_a_trap_is_no_answer(provider: DockerSandboxes, name: str) -> None:
    played = attack(provider, python("import os\n" + FILES[name]), limits=PATIENT)
    assert "exit code 0" in played.told
    assert (played.episode.stop, played.result.status) == (
        StopReason.ANSWERED,
        Status.MODEL_FAILURE,
    )
    assert (played.result.score, played.result.error_class) == (0.0, "")
    assert b"root:" not in (played.episode.answer_file or b"")


def block(body: str) -> str:
    return f"<answer>\n{body}\n</answer>"


BOMBS: dict[str, tuple[str, Status]] = {
    "tags": ("<answer>\n" * 500_000, Status.MODEL_FAILURE),
    "tags in turn": (block("") * 100_000, Status.MODEL_FAILURE),
    "blocks": ((block('{"a": [') + "\n") * 50_000, Status.MODEL_FAILURE),
    "ten megabytes": (block('{"x": "' + "y" * 10_000_000 + '"}'), Status.MODEL_FAILURE),
    "nested": (block('{"a":' * 300_000), Status.MODEL_FAILURE),
    "big number": (block(json.dumps({"average": 10**4000, "numbers": [10**4000]})), Status.SCORED),
    "endless number": (block('{"average": ' + "9" * 1_000_000 + "}"), Status.MODEL_FAILURE),
    "no number": (block('{"average": NaN, "numbers": [Infinity]}'), Status.MODEL_FAILURE),
    "overflow": (block('{"average": 1e999}'), Status.MODEL_FAILURE),
    "twice": (block('{"average": 1, "average": 2}'), Status.MODEL_FAILURE),
    "half a pair": (block('{"average": "\\ud800", "\\udfff": 1}'), Status.SCORED),
    "many numbers": (block(json.dumps({"numbers": list(range(400_000))})), Status.MODEL_FAILURE),
    "other types": (block('{"average": [[]], "numbers": {"a": {}}, "": null}'), Status.SCORED),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_final_text_that_is_a_bomb_costs_little_and_earns_nothing(
    provider: DockerSandboxes, name: str
) -> None:
    text, status = BOMBS[name]
    begun = time.process_time()
    played = play(provider, Playback([say(text)] * 2, "hostile", trusted=False), LIMITS)
    assert time.process_time() - begun < 20
    assert played.result.status is status
    assert played.result.score is not None
    assert played.result.score <= 0.3
    kept = played.episode.answer or ""
    assert text in kept or (text[:1000] in kept and len(kept) < MAX_TEXT_CHARS + 100)


def test_after_it_all_the_pool_is_healthy(provider: DockerSandboxes) -> None:
    with ThreadPoolExecutor(4) as together:
        plays: list[Any] = [together.submit(work_honestly, provider) for _ in range(4)]
        results = [each.result() for each in plays]
    assert [each.result.score for each in results] == [1.0] * 4
    assert [each.result.grade.status for each in results] == [GradeStatus.GRADED] * 4
    assert len({each.episode.container for each in results}) == 4


def test_the_tool_server_outlasts_limits_schedulers_and_spinners(
    provider: DockerSandboxes, guest: bool
) -> None:
    """A limit on its processor time, the lowest priority, or too little of the processor would each
    lose the sandbox, and the cell with it."""
    starve = cases(__file__, "starve")
    costly = command("for n in {1..200}; do echo /proc/*/*/* > /dev/null; done; echo listed")
    write = call(("write_file", {"path": "big.txt", "content": "x" * 100_000}))
    played = attack(provider, python(starve), costly, write, command("wc -c big.txt"))
    assert "tried" in played.told
    # gVisor takes priorities of others and does nothing with them.
    assert ("WORKED" in played.told) is guest
    assert "Wrote 100,000 bytes." in played.told
    assert "100000 big.txt" in played.told
    assert (played.result.status, played.result.score) == (Status.MODEL_FAILURE, 0.0)


def test_a_container_that_somebody_kills_is_a_failure_of_ours(provider: DockerSandboxes) -> None:
    from generators.task import Limits as TaskLimits
    from harness.errors import AttemptFailed

    client = connect()
    sandbox = provider.open((), TaskLimits())
    try:
        client.kill(sandbox.id)
        with suppress(docker.errors.APIError, requests.RequestException):  # gone already
            client.wait(sandbox.id, timeout=60)  # the signal is on its way until then
        with pytest.raises(AttemptFailed):
            sandbox.run(["true"], 5.0)
    finally:
        sandbox.close()
        client.close()

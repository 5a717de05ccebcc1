"""Hostile programs in a container: which limit they hit is told, and nobody else notices."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker.errors import DockerException

from generators.task import Limits
from harness.errors import AttemptFailed, HarnessError
from harness.sandboxes import docker
from harness.sandboxes.docker import DockerSandboxes
from harness.sandboxes.image import ensure_image
from harness.sandboxes.sandbox import ExecResult, Sandbox
from tests.cases import cases
from tests.progress import Stall, wait_until

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_bytes=96 << 20, disk_bytes=16 << 20, processes=32, output_bytes=4096)


@pytest.fixture(scope="module")
def provider() -> Iterator[DockerSandboxes]:
    opened = DockerSandboxes(ensure_image().tag, warm=1)
    yield opened
    opened.close()


@pytest.fixture
def box(provider: DockerSandboxes) -> Iterator[Sandbox]:
    with provider.open([], LIMITS) as opened:
        yield opened


def run(box: Sandbox, source: str, seconds: float = 10.0) -> ExecResult:
    return box.run(["python3", "-c", source], seconds)


def containers(label: str = "dosimeter=1") -> list[str]:
    client = docker.connect()
    try:
        found = client.containers(all=True, filters={"label": label})
        return [str(container["Id"]) for container in found]
    finally:
        client.close()


def wait_until_gone(names: set[str], left: int = 0) -> set[str]:
    """Wait until at most that many are left, or no more go; return those."""
    stall = Stall(lambda: len(names & set(containers())), 60.0)
    while len(there := names & set(containers())) > left and not stall.over():
        time.sleep(0.1)
    return there


def test_a_program_cannot_speak_for_the_tool_server(box: Sandbox) -> None:
    source = cases(__file__, "speaker")
    result = run(box, source)
    assert (result.exit_code, result.output) == (0, b"")


def test_memory_that_outlives_its_program_leaves_the_server_its_own(box: Sandbox) -> None:
    """Full folders in memory stay; a program that takes all its memory beside them is killed, and
    the server is not."""
    assert {"memory", "disk"} <= set(run(box, cases(__file__, "fill"), 60).limits)
    assert box.run(["echo", "1"], 10).output == b"1\n"


def test_only_the_work_folder_and_small_scratch_can_be_written(box: Sandbox) -> None:
    source = cases(__file__, "writable")
    assert set(eval(run(box, source, 30).output)) <= {"/work", "/tmp", "/dev/shm", "/dev/mqueue"}


def test_programs_have_no_privileges(box: Sandbox) -> None:
    status = run(box, "print(open('/proc/self/status').read())").output.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    assert {int(fields[name], 16) for name in names} == {0}
    assert fields["Seccomp"] == "2"
    assert fields["Groups"].strip() == ""
    server = box.run(["cat", "/proc/1/status"], 10).output.decode()
    theirs = dict(line.split(":\t", 1) for line in server.splitlines() if ":\t" in line)
    three = 1 << 5 | 1 << 6 | 1 << 7  # KILL, SETGID, SETUID
    assert {int(theirs[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {three}
    assert int(fields["CapBnd"], 16) == three  # which no program can gain
    agent, uid = fields["Uid"].split(), theirs["Uid"].split()
    assert len({*agent, *uid[:3]}) == 2
    assert uid[3] == agent[0], "the server touches files as the agent does"
    assert int(agent[0]) >= 200_000


def test_agents_that_live_at_once_have_different_users(provider: DockerSandboxes) -> None:
    """Also if another process or user of the engine has the number that is drawn first."""
    other = DockerSandboxes(ensure_image().tag)
    with provider.open([], LIMITS) as first, other.open([], LIMITS) as second:
        uids = {int(box.run(["id", "-u"], 10).output) for box in (first, second)}
        assert len(uids) == 2
        other._first_uid = uids.pop()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(docker, "_UIDS", 1)
            with ThreadPoolExecutor(1) as later:
                waiting = later.submit(other._create_unique, docker.profile_of(LIMITS), None)
                time.sleep(1.0)
                assert not waiting.done(), "one uid, and another container has it"
                first.close()
                second.close()
                waiting.result()
    other.close()


@pytest.mark.parametrize(("options", "remaps"), cases(__file__, "engines"))
def test_engines_that_remap_users_are_known(options: list[str] | None, remaps: bool) -> None:
    """They have 65,536 uids: those of agents and servers lie within them."""
    assert docker._remaps_users({"SecurityOptions": options}) is remaps
    assert docker._FIRST_UID_REMAPPED + 2 * docker._UIDS <= 1 << 16


def test_a_sandbox_works_with_the_users_of_an_engine_that_remaps() -> None:
    provider = DockerSandboxes(ensure_image().tag)
    provider._first_uid = docker._FIRST_UID_REMAPPED
    with provider.open([], LIMITS) as box:
        assert 10_000 <= int(box.run(["id", "-u"], 10).output) < 30_000
        assert box.run(["cat", "/proc/self/oom_score_adj"], 10).output == b"1000\n"
    provider.close()


REFUSED = cases(__file__, "refused")
CALLS = cases(__file__, "calls")


def test_the_filter_refuses_what_no_task_needs(box: Sandbox) -> None:
    arm = platform.machine() == "aarch64"
    calls = [(name, call[arm], *call[2:]) for name, call in CALLS.items()]
    result = run(box, REFUSED.format(calls=calls))
    families = {int(word) for word in result.output.split() if word.isdigit()}
    assert families == {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    assert {word for word in result.output.decode().split("\n") if not word.isdigit()} == {""}
    assert result.exit_code == 0


def test_programs_reach_each_other_within_the_sandbox(box: Sandbox) -> None:
    """By loopback and by Unix sockets, and threads and processes work."""
    assert run(box, cases(__file__, "source"), 30).output == b"heard\nheard\n3\n"


def test_nothing_is_written_through_to_the_engines_log(box: Sandbox) -> None:
    box.run(["echo", "a secret answer"], 10)
    client = docker.connect()
    found = client.inspect_container(box.id)
    assert found["HostConfig"]["LogConfig"]["Type"] == "none"
    assert found["Mounts"] == []
    client.close()


# --- the pool and what remains ---


def test_the_pool_makes_ready_ahead_and_never_the_same_twice(provider: DockerSandboxes) -> None:
    wait_until(lambda: provider.ready(LIMITS) >= 1)
    seen = set()
    for _ in range(3):
        with provider.open([], LIMITS) as box:
            assert box.id not in seen
            assert box.run(["ls", "-A"], 10).output == b""
            box.write("left-behind", b"x")
            seen.add(box.id)
    assert not wait_until_gone(seen)


def test_other_limits_are_another_container(provider: DockerSandboxes) -> None:
    with provider.open([], replace(LIMITS, disk_bytes=8 << 20)) as box:
        blocks = box.run(["stat", "-f", "-c", "%b %S", "/work"], 10).output.split()
    assert int(blocks[0]) * int(blocks[1]) == 8 << 20


def test_close_leaves_no_container() -> None:
    provider = DockerSandboxes(ensure_image().tag, warm=2, run="to-be-closed")
    opened = provider.open([], LIMITS)
    opened.run(["sh", "-c", "exit 0"], 10)
    provider.open([], LIMITS)
    provider.close()
    provider.close()
    assert containers("dosimeter.run=to-be-closed") == []
    with pytest.raises(AttemptFailed, match="closed"):
        provider.open([], LIMITS)


class Engine:
    """An engine that is away so often, and creates nothing so often before that."""

    def __init__(self, provider: DockerSandboxes, patch: pytest.MonkeyPatch) -> None:
        self.away, self.refused = 0, 0
        self._connect, self._create = docker.connect, provider._create_unique
        patch.setattr(docker, "_ENDING_SECONDS", 1.5)
        patch.setattr(docker, "connect", self.connect)
        patch.setattr(provider, "_create_unique", self.create)

    def connect(self, timeout: int = 120) -> docker.APIClient:
        self.away -= self.refused <= 0
        if self.refused <= 0 <= self.away:
            raise HarnessError("no Docker engine answers")
        return self._connect(timeout)

    def create(self, *recipe: Any) -> str:
        self.refused -= 1
        if self.refused >= 0:
            raise DockerException("it is shutting down")
        return self._create(*recipe)


def test_an_engine_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = DockerSandboxes(ensure_image().tag)
    engine = Engine(provider, monkeypatch)
    with closing(provider):
        engine.refused, engine.away = 1, 2
        with provider.open([], LIMITS) as box:
            assert engine.away < 0, "it was restarted"
            provider._client.kill(box.id)
            engine.away = 2
            with pytest.raises(AttemptFailed, match="engine restarted"):
                box.run(["true"], 10)
        engine.refused = 4
        for _ in range(3):
            assert provider.trouble == ""
            with pytest.raises(AttemptFailed, match="not created: it is shutting down"):
                provider.open([], LIMITS)
        assert provider.trouble == "it is shutting down", "no cell is leased"
        wait_until(lambda: not provider.trouble)  # one is tried without an episode


OWNER = cases(__file__, "owner")


def test_no_container_is_left_when_the_owner_is_killed() -> None:
    tag = ensure_image().tag
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tag], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    theirs = set(containers("dosimeter.run=killed-owner"))
    assert len(theirs) == 4
    with owner:  # its pipe is closed, too
        owner.kill()
    wait_until_gone(theirs, left=1)  # those that ran go by themselves
    docker.reap()  # the one that never started
    assert not wait_until_gone(theirs)


def test_the_reaper_leaves_the_living_alone(box: Sandbox) -> None:
    docker.reap()
    assert run(box, "print(1)").output == b"1\n"


def test_the_pool_reaps_while_it_works(provider: DockerSandboxes) -> None:
    """One whose deadline has passed, of an owner on another machine's process table."""
    recipe = provider._recipe(docker.profile_of(LIMITS), 299_999)
    recipe["labels"] |= {"dosimeter.owner": "pid:[0]/1/1", "dosimeter.deadline": "1000"}
    client = docker.connect()
    left = str(client.create_container(**recipe)["Id"])
    client.close()
    provider._reaped = -docker.REAP_EVERY  # as if it had been long ago
    with provider.open([], LIMITS) as box:
        assert run(box, "print(1)").output == b"1\n"
    assert not wait_until_gone({left})


def test_of_many_programs_only_so_many_run_at_once() -> None:
    """And the wait for a turn is not taken from a program's time."""
    provider = DockerSandboxes(ensure_image().tag, executing=1)
    with provider.open([], LIMITS) as first, provider.open([], LIMITS) as second:
        code = "import time; begun = time.time(); time.sleep(0.8); print(begun, time.time())"
        with ThreadPoolExecutor(2) as both:
            made = [both.submit(run, box, code) for box in (first, second)]
            done = [each.result() for each in made]
    provider.close()
    spans = sorted([float(word) for word in each.output.split()] for each in done)
    assert spans[0][1] <= spans[1][0]
    assert all(each.limits == () for each in done)


def test_one_waits_until_this_machine_has_room_for_it() -> None:
    """And what is only kept ready for others makes way."""
    size = docker.bytes_of(docker.profile_of(LIMITS), "runc")
    others = replace(LIMITS, processes=LIMITS.processes + 1)
    provider = DockerSandboxes(ensure_image().tag, warm=1, memory_bytes=1)
    with pytest.raises(HarnessError, match="memory_gb"):
        provider.open([], LIMITS)
    provider.close()
    provider = DockerSandboxes(ensure_image().tag, warm=1)
    label = f"dosimeter.provider={provider._labels['dosimeter.provider']}"

    def taken() -> int:  # of this test's alone: the engine is everybody's
        found = provider._client.containers(all=True, filters={"label": label})
        return sum(int(each["Labels"]["dosimeter.bytes"]) for each in found)

    provider._admission = replace(provider._admission, most=2 * size + size // 2, taken=taken)
    with provider.open([], LIMITS) as first:
        assert provider._taken() >= size
        with provider.open([], others) as second, ThreadPoolExecutor(1) as later:
            assert taken() <= 2 * size + size // 2, "the one that was kept ready has gone"
            waiting = later.submit(provider.open, [], LIMITS)
            time.sleep(0.5)
            assert not waiting.done()
            first.close()
            with waiting.result() as third:
                assert {run(box, "print(1)").output for box in (second, third)} == {b"1\n"}
    provider.close()


# --- what goes wrong outside ---


def test_no_engine_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HarnessError, match=r"no Docker engine answers at .*none.sock.*make engine"):
        DockerSandboxes("any:tag")


def test_an_image_that_is_not_there_is_told_with_the_remedy() -> None:
    with pytest.raises(HarnessError, match=r"no sandbox image .*make image"):
        DockerSandboxes("dosimeter-sandbox:never-built")


def test_an_unknown_runtime_is_told_with_the_remedy() -> None:
    with pytest.raises(HarnessError, match=r"no runtime 'quantum', only .*runc.*daemon.json"):
        DockerSandboxes(ensure_image().tag, runtime="quantum")


WHERE = cases(__file__, "where")


def test_programs_that_run_at_once_have_cores_of_their_own(
    provider: DockerSandboxes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # other programs of this user hold cores
    cores = int(provider._client.info()["NCPU"])
    with ThreadPoolExecutor(cores + 1) as threads:
        boxes = [provider.open([], LIMITS) for _ in range(cores + 1)]
        try:
            done = list(threads.map(lambda box: run(box, WHERE % 3), boxes))
        finally:
            for box in boxes:
                box.close()
    assert not [each.output for each in done if each.exit_code]
    used = sorted(json.loads(each.output) for each in done)
    alone, shared = [[core] for core in range(cores)], [list(range(cores))]
    assert used == sorted(alone + shared)

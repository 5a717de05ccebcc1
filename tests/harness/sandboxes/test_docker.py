"""Hostile programs in a container: which limit they hit is told, and nobody else notices."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from generators.task import Asset, Limits
from harness.errors import AttemptFailed, HarnessError
from harness.sandboxes import docker
from harness.sandboxes.docker import DockerSandboxes
from harness.sandboxes.image import ensure_image
from harness.sandboxes.sandbox import ExecResult, Sandbox, SandboxRefused

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


def wait_until_gone(names: set[str], seconds: float = 15.0) -> set[str]:
    deadline = time.monotonic() + seconds
    while (left := names & set(containers())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


BOMBS = [
    ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", {"processes", "time"}),
    ("held = []\nwhile True: held.append(bytearray(1 << 20))", {"memory"}),
    ("open('big', 'wb').write(bytes(64 << 20))", {"disk"}),
    (
        "import itertools\nfor n in itertools.count(): open(f'small{n}', 'w').close()",
        {"disk"},
    ),
    ("while True: print('x' * 4096)", {"output"}),
    ("import time; time.sleep(60)", {"time"}),
    (
        "import signal, time\nfor s in signal.valid_signals() - {9, 19}: signal.signal(s, 1)\n"
        "time.sleep(60)",
        {"time"},
    ),
]


@pytest.mark.parametrize(
    ("source", "limits"),
    BOMBS,
    ids=["forks", "memory", "one file", "many files", "output", "sleeper", "deaf sleeper"],
)
def test_a_bomb_hits_its_limit_while_a_neighbour_works_on(
    provider: DockerSandboxes, box: Sandbox, source: str, limits: set[str]
) -> None:
    answers: list[bytes] = []
    stop = threading.Event()
    with provider.open([Asset("note", "text/plain", b"mine")], LIMITS) as neighbour:

        def work_on() -> None:
            while True:
                answers.append(neighbour.run(["cat", "note"], 20).output)
                if stop.wait(0.05):
                    return

        thread = threading.Thread(target=work_on)
        thread.start()
        result = run(box, source, 2.0 if "time" in limits else 30.0)
        stop.set()
        thread.join()
    assert set(result.limits) == limits
    assert result.exit_code != 0
    assert set(answers) == {b"mine"}
    after = run(box, "print(1)")  # the sandbox itself has survived
    assert after.output == b"1\n" or "disk" in limits
    assert after.exit_code == 0


def test_the_pool_is_healthy_after_the_bombs(provider: DockerSandboxes) -> None:
    with provider.open([], LIMITS) as fresh:
        result = run(fresh, "print(6 * 7)")
    assert (result.output, result.limits) == (b"42\n", ())


def test_a_full_folder_refuses_a_write_and_says_so(box: Sandbox) -> None:
    with pytest.raises(SandboxRefused, match="no space") as refused:
        box.write("big", bytes(32 << 20))
    assert refused.value.limits == ("disk",)
    box.write("small", b"fits")
    assert box.run(["ls", "-A"], 10).output == b"small\n"


def test_a_program_cannot_kill_the_tool_server(box: Sandbox) -> None:
    for signal in ("KILL", "TERM", "INT", "STOP", "SEGV"):
        box.run(["sh", "-c", f"kill -{signal} 1; kill -{signal} -1"], 10)
    assert run(box, "print(1)").output == b"1\n"


def test_a_program_cannot_speak_for_the_tool_server(box: Sandbox) -> None:
    source = """
import os
for name in ('fd/0', 'fd/1', 'mem', 'environ', 'root/etc/passwd'):
    try:
        open('/proc/1/' + name, 'rb' if name == 'environ' else 'r+b').read(1)
        print('opened', name)
    except OSError as error:
        pass
"""
    result = run(box, source)
    assert (result.exit_code, result.output) == (0, b"")


def test_memory_that_outlives_its_program_is_the_agents_doing(box: Sandbox) -> None:
    """Shared memory that no process holds can take the server down: no failure of ours."""
    source = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
while True:
    number = libc.shmget(0, 1 << 20, 0o1600)
    ctypes.memset(libc.shmat(number, None, 0), 1, 1 << 20)
"""
    result = run(box, source, 60)
    assert "memory" in result.limits
    again = run(box, "print(1)")
    assert again.exit_code == 0 or "memory" in again.limits


def test_there_is_no_network(box: Sandbox) -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        source = f"""
import socket
for host in ('127.0.0.1', '172.17.0.1', '10.0.0.1'):
    try:
        socket.create_connection((host, {port}), 2)
        print('connected', host)
    except OSError:
        pass
print(socket.if_nameindex())
"""
        result = run(box, source)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert result.output == b"[(1, 'lo')]\n"


def test_only_the_work_folder_and_small_scratch_can_be_written(box: Sandbox) -> None:
    source = """
import os
writable = set()
for top, folders, _ in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ('/proc', '/sys')]
    try:
        open(os.path.join(top, 'probe'), 'w').close()
        writable.add(top)
    except OSError:
        pass
print(sorted(writable))
"""
    result = run(box, source, 30)
    assert set(eval(result.output)) <= {"/work", "/tmp", "/dev/shm", "/dev/mqueue"}


def test_programs_have_no_privileges(box: Sandbox) -> None:
    status = run(box, "print(open('/proc/self/status').read())").output.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    assert {int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert fields["Uid"].split() == ["65534"] * 4
    assert fields["Seccomp"] == "2"


def test_nothing_is_written_through_to_the_engines_log(box: Sandbox) -> None:
    box.run(["echo", "a secret answer"], 10)
    client = docker.connect()
    found = client.inspect_container(box.id)
    assert found["HostConfig"]["LogConfig"]["Type"] == "none"
    assert found["Mounts"] == []
    client.close()


# --- the pool and what remains ---


def test_the_pool_makes_ready_ahead_and_never_the_same_twice(provider: DockerSandboxes) -> None:
    deadline = time.monotonic() + 20
    while provider.ready(LIMITS) < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
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


OWNER = """
import sys, time
from generators.task import Limits
from harness.sandboxes.docker import DockerSandboxes, profile_of
provider = DockerSandboxes(sys.argv[1], warm=2, run='killed-owner')
box = provider.open([], Limits())
while provider.ready(Limits()) < 2:
    time.sleep(0.05)
# As if it were killed between creating and starting one.
provider._client.create_container(**provider._recipe(profile_of(Limits())))
print('ready', flush=True)
box.run(['sleep', '600'], 600)
"""


def test_no_container_is_left_when_the_owner_is_killed() -> None:
    tag = ensure_image().tag
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tag], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    theirs = set(containers("dosimeter.run=killed-owner"))
    assert len(theirs) == 4
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 15
    while len(theirs & set(containers())) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)  # those that ran go by themselves
    docker.reap()  # the one that never started
    assert not wait_until_gone(theirs)


def test_the_reaper_leaves_the_living_alone(box: Sandbox) -> None:
    docker.reap()
    assert run(box, "print(1)").output == b"1\n"


def test_the_pool_reaps_while_it_works(provider: DockerSandboxes) -> None:
    """One whose deadline has passed, of an owner on another machine's process table."""
    recipe = provider._recipe(docker.profile_of(LIMITS))
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
        code = "import time; begun = time.time(); time.sleep(1.5); print(begun, time.time())"
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
        provider.prepare(LIMITS)
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


def test_a_container_killed_from_outside_is_a_failed_attempt(provider: DockerSandboxes) -> None:
    box = provider.open([], LIMITS)
    client = docker.connect()
    timer = threading.Timer(0.5, client.remove_container, [box.id], {"force": True})
    timer.start()
    with pytest.raises(AttemptFailed, match="sandbox: server gone"):
        box.run(["sleep", "30"], 30)
    timer.join()
    client.close()
    box.close()


def test_a_container_killed_by_hand_is_a_failed_attempt(provider: DockerSandboxes) -> None:
    """The engine tells of no kill then, and the kernel of no shortage of memory."""
    with provider.open([], LIMITS) as box:
        if not docker.kill_by_hand(box.id):
            pytest.skip("another user's processes cannot be killed")
        with pytest.raises(AttemptFailed, match="sandbox: server gone"):
            box.run(["sleep", "30"], 30)


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

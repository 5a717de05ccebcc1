"""Faults of processes, hosts and networks in the middle of a sweep. After each the sweep goes on by
itself or by the same command: one attempt a cell, no more bought again than was on its way where
something died, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.episode import StopReason
from harness.sandboxes.image import ensure_image
from registry.sealing import decrypt
from study.workspace.study import Study, manifest_of
from tests.harness.openai_server import Answer, Json, Served, completion
from tests.hosts import Host, network, why_not
from tests.progress import wait_until as until
from tests.study.conftest import TESTED, start_cluster
from tests.study.steps.sweep.test_operation import CELLS, STUDY, operated
from tests.study.steps.sweep.test_sweeps import episodes_of, finish, worker_processes

PARALLEL = 4  # of these studies, in each worker
KINDS = (b"study.main", b"harness.sweep.worker_process", b"ray::Worker", b"ray::Coordinator")
MAIN = (sys.executable, "-m", "study.main")
OPTIONS = ("--allow-dirty", "--allow-unknown-price", "--json")


def command(study: Study, *options: str) -> list[str]:
    return [*MAIN, "sweep", "--wave", "0", *OPTIONS, "--study", str(study.folder), *options]


def begin(study: Study, *options: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command ``sweep``, with the temporary folder and the mark of its test."""
    return subprocess.Popen(
        command(study, *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | marks(study) | variables,
    )


def marks(study: Study) -> dict[str, str]:
    """The environment of the processes of a study's test."""
    temporary = study.folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    # The paths of Ray's sockets are short.
    return {TESTED: str(study.folder), "TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp"}


def refused(process: subprocess.Popen[str], code: int) -> str:
    """Return the last line of a command's errors, after checking its exit code."""
    _, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "*** SIG" not in err
    return err.rstrip().splitlines()[-1]


def check_swept(study: Study, outcome: dict[str, Any], served: Served, lost: int) -> None:
    """Check that each cell has one counted attempt, and that no more replies were paid for twice
    than the sweep reports as lost, which are ``lost`` at most."""
    assert outcome["closed"]["finished"] == outcome["closed"]["owed"] == CELLS
    assert len(served.requests) - CELLS <= outcome["lost"] <= lost
    episodes = episodes_of(study)
    assert len(episodes) == len({episode.id for episode in episodes}) == CELLS


def check_clean(study: Study, *folders: Path) -> None:
    """Check that no process of the test is left, that its temporary folders are empty, and that no
    private byte is in the files that it left outside the study."""
    until(lambda: not processes_of(study))
    temporary = [*(folder / "tmp" for folder in folders), study.folder.parent / "tmp"]
    left = [each for folder in temporary for each in folder.rglob("*")]
    # The outbox is a folder that stays: a process that was frozen amid a request has used it.
    assert not [each for each in left if each.is_file() or ".outbox" not in str(each)]
    secrets = private_bytes(study)
    for place in folders:
        for file in filter(Path.is_file, place.rglob("*")):
            found = file.read_bytes()
            assert not any(secret in found for secret in secrets), f"private bytes in {file}"


def processes_of(study: Study, *kinds: bytes) -> list[int]:
    """The processes of a test's sweeps, or of some kinds, without those of a cluster that runs
    on."""
    found, mark = [], f"{TESTED}={study.folder}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words, environment = (folder / "cmdline").read_bytes(), folder / "environ"
            if any(kind in words for kind in kinds or KINDS) and mark in environment.read_bytes():
                found.append(int(folder.name))
    return found


def private_bytes(study: Study) -> list[bytes]:
    """The keys of study and run, the seeds, the instances, and what the model said."""
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    run_key = decrypt(study.store.get(manifest.run_key), study.identities(), manifest.run_key)
    entries = study.entries()
    return [
        *(run_key, *(key.encode() for key in study.identities()), REPLY.encode()),
        *(entry.seed.encode() for entry in entries),
        *(bytes.fromhex(entry.seed) for entry in entries),
    ]


REPLY = "None."
IN_TURNS = STUDY.replace(", mode: single_turn", "").replace("kind: local", "kind: docker")


@contextmanager
def cluster(nodes: int, study: Study) -> Iterator[Any]:
    """A head that does no work, and nodes, all real raylets on this machine, whose processes have
    the temporary folder and the mark of the study's test."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in marks(study).items():
            environment.setenv(name, value)
        with start_cluster({}, num_cpus=0, resources={"head": 1}) as made:
            sandbox = {"sandbox": 1}
            yield made, [made.add_node(num_cpus=1, resources=sandbox) for _ in range(nodes)]


@pytest.mark.parametrize("nodes", [0, pytest.param(2, marks=[pytest.mark.slow, pytest.mark.ray])])
def test_a_killed_driver_costs_no_reply(tmp_path: Path, nodes: int) -> None:
    with ExitStack() as stack:
        study, gate, served = stack.enter_context(operated(tmp_path / "study"))
        options = ["--workers", "2"]
        if nodes:
            options += ["--address", stack.enter_context(cluster(nodes, study))[0].address]
        killed = begin(study, *options)
        until(lambda: len(served.requests) == 2 * PARALLEL)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        again = begin(study, *options)
        gate.open.set()
        check_swept(study, finish(again), served, lost=0)
        check_clean(study)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize(
    ("kind", "number", "lost"), [(1, 2, PARALLEL), (2, 2, PARALLEL), (3, 1, 0)]
)
def test_a_killed_process_of_a_cluster_costs_what_was_on_its_way_in_it(
    tmp_path: Path, kind: int, number: int, lost: int
) -> None:
    with operated(tmp_path / "study") as (study, gate, served), cluster(2, study) as (made, _):
        sweep = begin(study, "--address", made.address, "--workers", "2")
        until(lambda: len(served.requests) == 2 * PARALLEL)
        killed, *others = processes_of(study, KINDS[kind])
        assert len(others) == number - 1
        os.kill(killed, signal.SIGKILL)
        until(lambda: len({*processes_of(study, KINDS[kind])} - {killed}) == number)
        gate.open.set()
        check_swept(study, finish(sweep), served, lost=lost)
        check_clean(study)


@pytest.mark.slow
@pytest.mark.ray
def test_a_killed_raylet_costs_what_was_on_its_way(tmp_path: Path) -> None:
    with operated(tmp_path / "study") as (study, gate, served), cluster(2, study) as (made, nodes):
        sweep = begin(study, "--address", made.address, "--workers", "2")
        until(lambda: len(served.requests) == 2 * PARALLEL)
        made.remove_node(nodes[1], allow_graceful=False)
        gate.open.set()
        check_swept(study, finish(sweep), served, lost=PARALLEL)
        check_clean(study)


@pytest.mark.slow
@pytest.mark.ray
def test_a_killed_gcs_ends_the_sweep_in_one_line_and_another_cluster_goes_on(
    tmp_path: Path,
) -> None:
    with operated(tmp_path / "study") as (study, gate, served):
        with cluster(1, study) as (made, _):
            sweep = begin(study, "--address", made.address)
            until(lambda: len(served.requests) == PARALLEL)
            (gcs,) = made.head_node.all_processes["gcs_server"]
            os.kill(gcs.process.pid, signal.SIGKILL)
            assert "the head of the cluster at" in refused(sweep, 1)
        gate.open.set()
        with cluster(1, study) as (made, _):
            check_swept(study, finish(begin(study, "--address", made.address)), served, lost=0)
            check_clean(study)


# --- Memory ---


LARGE = 1 << 24  # characters of a reply


@dataclass(frozen=True)
class MemoryLimit:
    """A control group of the kernel's, which ends a process in it that takes more memory."""

    group: Path
    events: str  # the file that counts how many it ended

    def take(self, pid: int) -> None:
        """Put a process under the limit; what it has already does not count."""
        (self.group / "cgroup.procs").write_text(str(pid))

    @property
    def ended(self) -> int:
        words = (self.group / self.events).read_text().split()
        return int(words[words.index("oom_kill") + 1])


@contextmanager
def memory_limit(size: int) -> Iterator[MemoryLimit]:
    """A limit of so many bytes, by version 1 of control groups or 2."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    name = f"dosimeter-{os.getpid()}"
    if (first / "memory.limit_in_bytes").exists():
        made = MemoryLimit(first / name, "memory.oom_control")
        limits = {"memory.limit_in_bytes": size}
    else:
        made = MemoryLimit(second / name, "memory.events")
        limits = {"memory.max": size, "memory.swap.max": 0}
    try:
        made.group.mkdir()
        for file, value in limits.items():
            (made.group / file).write_text(str(value))
    except OSError as error:
        pytest.skip(f"no control group for memory can be made here: {error}")
    try:
        yield made
    finally:
        made.group.rmdir()


@pytest.mark.slow
def test_a_process_that_the_kernel_ends_for_its_memory_is_a_failure_of_its_episodes(
    tmp_path: Path,
) -> None:
    with memory_limit(LARGE // 2) as limit, operated(tmp_path / "study") as (study, gate, served):
        gate.reply = lambda _: completion(
            "x" * LARGE if len(served.requests) <= PARALLEL else REPLY
        )
        sweep = begin(study)
        until(lambda: len(served.requests) == PARALLEL)
        (pid,) = worker_processes(str(study.folder))
        limit.take(pid)
        gate.open.set()
        outcome = finish(sweep)
        assert limit.ended == 1
    assert outcome["failures"] == {"worker:killed": PARALLEL}
    check_swept(study, outcome, served, lost=PARALLEL)
    check_clean(study)


# --- The Docker engine ---


class Engine:
    """A Docker engine of the test's own on a host of its own, with the sandbox image of this
    machine's."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.address = f"unix://{folder}/docker.sock"  # such a path must be short
        self._host, self._folder = host, folder
        roots = [f"--{name}={folder}/{name}" for name in ("data-root", "exec-root")]
        alone = ["--bridge=none", "--iptables=false", f"--pidfile={folder}/pid"]
        self._command = ["dockerd", "--host", self.address, *roots, *alone]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = self._host.start(
            "sh", "-c", 'exec "$@" 2>> "$0"', f"{self._folder}/log", *self._command
        )
        until(self._answers)

    def kill(self) -> None:
        """Kill the daemon, as the kernel does for its memory; its containers live on."""
        assert self._process is not None
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        os.kill(int(Path(children).read_text()), signal.SIGKILL)
        self._process.communicate()

    def load(self, tag: str) -> None:
        """Take the image from the machine's engine."""
        with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "-H", self.address, "load"],
                stdin=saved.stdout,
                capture_output=True,
                check=True,
            )

    def containers(self) -> list[str]:
        """The sandboxes that there are. An engine that was killed may list one that it removes as
        dead for good, of which it knows nothing if it is asked."""
        listed = self._ask("ps", "-aq", "--filter", "label=dosimeter=1").stdout.split()
        return [each for each in listed if self._ask("inspect", each).returncode == 0]

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        asked = ["docker", "-H", self.address, *words]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        return self._ask("info").returncode == 0


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    if reason := why_not() or ("" if shutil.which("dockerd") else "no dockerd here"):
        pytest.skip(f"no engine of its own here: {reason}")
    tag = ensure_image().tag
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-")))
        made = Engine(stack.enter_context(network(folder, "host")).hosts["host"], folder)
        made.start()
        made.load(tag)
        monkeypatch.setenv("DOCKER_HOST", made.address)
        yield made


@pytest.mark.slow
@pytest.mark.docker
def test_a_killed_engine_costs_attempts_and_no_reply(tmp_path: Path, engine: Engine) -> None:
    with operated(tmp_path / "study", IN_TURNS) as (study, gate, served):
        gate.reply = take_turns
        sweep = begin(study)
        until(lambda: len(served.requests) == PARALLEL)
        engine.kill()
        gate.open.set()
        time.sleep(10)  # longer than all pauses of an episode that fails at once each time
        engine.start()
        outcome = finish(sweep)
    assert outcome["closed"]["finished"] == CELLS
    assert outcome["failures"], "sandboxes were lost"
    assert all(name.startswith("sandbox:") for name in outcome["failures"])
    assert len(served.requests) == TURNS * CELLS, "the next attempt has the replies of the first"
    finished = [each for each in episodes_of(study) if each.stop is not StopReason.FAILED]
    assert len(finished) == len({episode.id for episode in finished}) == CELLS
    check_clean(study)
    until(lambda: not engine.containers())


TURNS = 4  # of an agent that uses a tool once, and is asked thrice to go on


def take_turns(request: Json) -> Answer:
    """The reply of such an agent."""
    used = request["messages"][-1]["role"] == "tool"
    return (
        completion(REPLY) if used else completion(None, [("call-1", "read_file", {"path": "no"})])
    )

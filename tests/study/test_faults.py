"""Faults of processes, hosts and networks in the middle of a sweep. After each the sweep goes on by
itself or by the same command: one attempt a cell, no more bought again than was on its way where
something died, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from harness.episode import StopReason
from harness.sandboxes.image import ensure_image
from harness.storage import RESULTS
from harness.sweep.worker_process import prepare_ray
from registry.sealing import decrypt
from registry.verify import verify_study
from study import pipeline
from study.sweeps.operation import _at_work
from study.workspace import manifest_of
from study.workspace.setup import init_study
from study.workspace.study import Study
from tests.conftest import ROOT
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.hosts import BETWEEN, RAY_PORT, Network, network, why_not
from tests.study.conftest import promise_unchecked
from tests.study.test_operation import CELLS, STUDY, Gate, as_on_another_host, operated, until
from tests.study.test_sweeps import episodes_of, finish

pytestmark = pytest.mark.ray

PARALLEL = 4  # of these studies, in each worker
TESTED = "DOSIMETER_TESTED"  # in the environment of each process of a test
KINDS = (b"study.cli.main", b"harness.sweep.worker_process", b"ray::Worker", b"ray::Coordinator")
OPTIONS = ("--allow-dirty", "--allow-unknown-price", "--json")


def command(study: Study, *options: str) -> list[str]:
    sweep = [sys.executable, "-m", "study.cli.main", "sweep", "--wave", "0"]
    return [*sweep, *OPTIONS, "--study", str(study.folder), *options]


def begin(study: Study, *options: str, **variables: str) -> subprocess.Popen[str]:
    """Start the command ``sweep``, with the temporary folder and the mark of its test."""
    temporary = study.folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    # The paths of Ray's sockets are short.
    marks = {TESTED: str(study.folder), "TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp"}
    return subprocess.Popen(
        command(study, *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | marks | variables,
    )


def refused(process: subprocess.Popen[str], code: int) -> str:
    """The one line with which a command ends, whose exit code this is."""
    _, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "*** SIG" not in err
    return err.rstrip().splitlines()[-1]


def check_swept(study: Study, outcome: dict[str, Any], served: Served, lost: int) -> None:
    """One counted attempt of each cell, and no more bought again than ``lost``, all of it told."""
    assert outcome["closed"]["finished"] == outcome["closed"]["owed"] == CELLS
    assert outcome["lost"] == lost
    assert len(served.requests) - CELLS <= lost
    episodes = episodes_of(study)
    assert len(episodes) == len({episode.id for episode in episodes}) == CELLS


def check_clean(study: Study, *folders: Path) -> None:
    """No process of the test is at work, its temporary folders are empty, and no private byte is in
    the files that it left outside the study."""
    until(lambda: not processes_of(study))
    temporary = [*(folder / "tmp" for folder in folders), study.folder.parent / "tmp"]
    left = [each for folder in temporary if folder.exists() for each in folder.iterdir()]
    assert all(each.name.endswith(".cells") and not each.stat().st_size for each in left), left
    secrets = private_bytes(study)
    for place in folders:
        for file in filter(Path.is_file, place.rglob("*")):
            found = file.read_bytes()
            assert not any(secret in found for secret in secrets), f"private bytes in {file}"


def processes_of(study: Study) -> list[int]:
    """The processes of a test's sweeps, without those of a cluster that runs on."""
    found, mark = [], f"{TESTED}={study.folder}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            if any(kind in words for kind in KINDS) and mark in (folder / "environ").read_bytes():
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


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A head that does no work, and nodes, all real raylets on this machine."""
    prepare_ray(None)
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "resources": {"head": 1}}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield made, [made.add_node(num_cpus=1, resources={"sandbox": 1}) for _ in range(nodes)]
    finally:
        made.shutdown()


@pytest.mark.slow
def test_a_killed_driver_of_a_cluster_costs_no_reply(tmp_path: Path) -> None:
    with operated(tmp_path / "study") as (study, gate, served), cluster(2) as (made, _):
        options = ("--address", made.address, "--workers", "2")
        killed = begin(study, *options)
        until(lambda: len(served.requests) == 2 * PARALLEL)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        again = begin(study, *options)
        gate.open.set()
        check_swept(study, finish(again), served, lost=0)
    check_clean(study)


@pytest.mark.slow
def test_a_killed_raylet_costs_what_was_on_its_way(tmp_path: Path) -> None:
    with operated(tmp_path / "study") as (study, gate, served), cluster(2) as (made, nodes):
        sweep = begin(study, "--address", made.address, "--workers", "2")
        until(lambda: len(served.requests) == 2 * PARALLEL)
        made.remove_node(nodes[1], allow_graceful=False)
        gate.open.set()
        check_swept(study, finish(sweep), served, lost=PARALLEL)
    check_clean(study)


@pytest.mark.slow
def test_a_killed_gcs_ends_the_sweep_in_one_line_and_another_cluster_goes_on(
    tmp_path: Path,
) -> None:
    with operated(tmp_path / "study") as (study, gate, served):
        with cluster(1) as (made, _):
            sweep = begin(study, "--address", made.address)
            until(lambda: len(served.requests) == PARALLEL)
            (gcs,) = made.head_node.all_processes["gcs_server"]
            os.kill(gcs.process.pid, signal.SIGKILL)
            assert "the head of the cluster at" in refused(sweep, 1)
        gate.open.set()
        with cluster(1) as (made, _):
            again = begin(study, "--address", made.address)
            check_swept(study, finish(again), served, lost=0)
    check_clean(study)


# --- Hosts with networks of their own ---


@contextmanager
def on_hosts(
    folder: Path, *names: str, answer: Callable[[Json], Answer] | None = None, text: str = STUDY
) -> Iterator[tuple[Network, Study, Gate, Served]]:
    """Hosts, a study, and the server of its model between them, by default with replies that
    wait."""
    gate = Gate()
    with ExitStack() as stack:
        made = hosts(stack, folder, *names)
        stack.callback(gate.open.set)
        with made.inside():
            served = stack.enter_context(serve(always=answer or gate.answer, host=BETWEEN))
        init_study(folder / "study", text.format(served.url))
        study = pipeline.open_study(folder / "study")
        promise_unchecked(study)
        yield made, study, gate, served


def hosts(stack: ExitStack, folder: Path, *names: str) -> Network:
    """Hosts of the test in this folder, whose study is in its ``study``."""
    if reason := why_not():
        pytest.skip(f"no hosts of their own here: {reason}")
    made = stack.enter_context(network(folder / "hosts", *names))
    for host in made.hosts.values():
        host.environment[TESTED] = str(folder / "study")
    return made


def join(made: Network, **sandboxes: int) -> tuple[str, ...]:
    """Make a cluster of the hosts, each but the head with so many workers; return the options."""
    head = made.hosts["head"]
    head.join(None, cpus=0, resources='{"head":1}')
    with ThreadPoolExecutor() as pool:
        for name, count in sandboxes.items():
            pool.submit(made.hosts[name].join, head, resources=f'{{"sandbox":{count}}}')
    return "--address", f"{head.address}:{RAY_PORT}", "--workers", "2"


def folders_of(made: Network) -> list[Path]:
    return [host.folder for host in made.hosts.values()]


@pytest.mark.slow
def test_a_lost_host_costs_what_was_on_its_way_there(tmp_path: Path) -> None:
    with on_hosts(tmp_path, "head", "w1", "w2") as (made, study, gate, served):
        options = join(made, w1=1, w2=1)
        sweep = made.hosts["head"].start(*command(study, *options))
        until(lambda: len(served.requests) == 2 * PARALLEL)
        made.hosts["w2"].lose()
        gate.open.set()
        check_swept(study, finish(sweep), served, lost=PARALLEL)
        check_clean(study, *folders_of(made))


TURNS, REPLY_SECONDS = 9, 5.0


def take_turns(request: Json) -> Answer:
    """A reply that takes time, of an agent that uses a tool until its last turn."""
    time.sleep(REPLY_SECONDS)
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    if turn == TURNS - 1:
        return completion(REPLY)
    return completion(None, [(f"call-{turn}", "read_file", {"path": "nothing"})])


@pytest.mark.slow
def test_a_host_that_is_cut_off_buys_no_turn_that_another_buys(tmp_path: Path) -> None:
    """It reaches the model and the store still, but not the head."""
    text = STUDY.replace(", mode: single_turn", "").replace("arm: 8", "arm: 4")
    with on_hosts(tmp_path, "head", "w1", "w2", answer=take_turns, text=text) as (
        made,
        study,
        _,
        served,
    ):
        options = join(made, w1=2, w2=1)
        sweep = made.hosts["head"].start(*command(study, *options))
        until(lambda: len(served.requests) > 2 * PARALLEL)
        made.cut("w2", from_host="head")
        until(lambda: lost_so_far(study) == PARALLEL)
        made.heal("w2", from_host="head")
        outcome = finish(sweep)
        assert outcome["closed"]["finished"] == 2 * PARALLEL
        assert outcome["lost"] == PARALLEL
        assert len(served.requests) - 2 * PARALLEL * TURNS <= PARALLEL, "a reply of each at most"
        assert len(episodes_of(study)) == 2 * PARALLEL
        check_clean(study, *folders_of(made))


def lost_so_far(study: Study) -> int:
    epochs, number, _ = _at_work(study, 0)
    heartbeat = epochs.heartbeat(number)
    return heartbeat.progress.lost if heartbeat and heartbeat.progress else 0


SKEWED = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define SKEW (-3600)
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += SKEW;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (now) *now = read.tv_sec;
    return read.tv_sec;
}
"""


def skewed_clock(folder: Path) -> dict[str, str]:
    """The environment in which clocks are an hour behind."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, with which to set back a clock")
    source, library = folder / "skewed.c", folder / "skewed.so"
    source.write_text(SKEWED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.mark.slow
def test_a_driver_on_another_host_waits_and_takes_over_though_its_clock_is_an_hour_behind(
    tmp_path: Path,
) -> None:
    with on_hosts(tmp_path, "here", "there") as (made, study, gate, served):
        here, there = made.hosts["here"], made.hosts["there"]
        there.environment |= skewed_clock(tmp_path)
        other = as_on_another_host(study, tmp_path / "other")
        first = here.start(*command(study))
        until(lambda: len(served.requests) == PARALLEL)
        second = there.start(*command(other))
        assert "another sweep of this run is at work" in refused(second, 2)
        here.lose()
        first.communicate()
        again = there.start(*command(other))
        gate.open.set()
        outcome = finish(again)
        assert outcome["closed"]["finished"] == CELLS
        assert len(served.requests) - CELLS <= PARALLEL
        assert len(episodes_of(study)) == CELLS
        begun, closed = (
            datetime.fromisoformat(next(study.ledger.find(kind)).time)
            for kind in ("run-manifest", "wave-closed")
        )
        assert closed < begun, "the clock was behind"
        verified = verify_study(study.store, study.identities())
        assert verified.holds, verified.problems
        check_clean(study, *folders_of(made))


DEMO = """\
import sys
from harness.sweep import prepare_ray
prepare_ray(sys.argv[1])
from harness.sweep.ray_cluster import ray_session
from study.cli.main import main
with ray_session(sys.argv[1]):
    main(["demo", "--study", sys.argv[2], "--json"])
"""


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(1200)
def test_the_demo_runs_on_two_hosts_with_a_store_between_them(
    tmp_path: Path, s3_credentials: None
) -> None:
    """As on one machine, but for the addresses of cluster and store in its study.yaml, and the
    local sandbox, since all hosts here would have one engine."""
    with ExitStack() as stack:
        made = hosts(stack, tmp_path, "head", "w1", "w2")
        (tmp_path / "weed").mkdir()
        with made.inside():
            script = [sys.executable, "benchmarks/seaweedfs.py", str(tmp_path / "weed"), BETWEEN]
            server = stack.enter_context(
                subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
            )
        assert server.stdin is not None
        assert server.stdout is not None
        stack.callback(server.stdin.close)
        ready = json.loads(server.stdout.readline())
        _, address, *_ = join(made, w1=1, w2=1)
        text = (files("study") / "demo.yaml").read_text(encoding="utf-8")
        text = text.replace("{kind: docker}", "{kind: local}")
        sweep = f"sweep: {{workers: 2, parallel: 6, address: '{address}'}}"
        store = f"s3://{ready['bucket']}/demo?endpoint={ready['endpoint']}&region=us-east-1"
        text = text.replace("sweep: {parallel: 6}", f'{sweep}\nstore: "{store}"')
        assert address in text
        folder = tmp_path / "study"
        with made.inside():
            init_study(folder, text)
        demo = made.hosts["head"].start(sys.executable, "-c", DEMO, address, str(folder))
        out, err = demo.communicate(timeout=1000)
        assert demo.returncode == 0, err
        verdicts = {row["model"]: row["verdict"] for row in json.loads(out)["models"]}
        assert verdicts["strong-1"] == verdicts["strong-2"] == "contaminated"
        assert not {verdicts["honest-1"], verdicts["honest-2"]} & {"contaminated", "withheld"}
        with made.inside():
            study = pipeline.open_study(folder)
            verified = verify_study(study.store, study.identities())
            assert verified.holds, verified.problems
            assert len(list(study.store.list(RESULTS))) == 3 * 4 * 2 * 2 * 12
            logs = [(host, (host.folder / "ray").rglob("worker-*")) for host in made.hosts.values()]
            assert all(any(found) for host, found in logs if host.name != "head"), "both had work"
            check_clean(study, *folders_of(made))


# --- The engine ---


class Engine:
    """A Docker engine of the test's own, with the sandbox image of the machine's."""

    def __init__(self, folder: Path) -> None:
        if os.getuid() or shutil.which("dockerd") is None:
            pytest.skip("no dockerd that this user may start")
        self.host = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        roots = [f"--{name}={self._folder}/{name}" for name in ("data-root", "exec-root")]
        alone = ["--bridge=none", "--iptables=false", f"--pidfile={self._folder}/pid"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["dockerd", "--host", self.host, *roots, *alone], stdout=log, stderr=log
            )
        until(lambda: (self._folder / "docker.sock").exists() and self._answers())

    def kill(self) -> None:
        """Kill the daemon, as the kernel does for its memory; its containers live on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        (self._folder / "docker.sock").unlink()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def load(self, tag: str) -> None:
        """Take the image from the machine's engine."""
        saved = subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE)
        subprocess.run(["docker", "-H", self.host, "load"], stdin=saved.stdout, check=True)
        assert saved.wait() == 0

    def containers(self) -> list[str]:
        listed = ["docker", "-H", self.host, "ps", "-aq", "--filter", "label=dosimeter=1"]
        return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()

    def _answers(self) -> bool:
        asked = ["docker", "-H", self.host, "info"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    tag = ensure_image().tag
    with tempfile.TemporaryDirectory(prefix="engine-") as folder:  # a socket's path is short
        made = Engine(Path(folder))
        made.start()
        try:
            made.load(tag)
            monkeypatch.setenv("DOCKER_HOST", made.host)
            yield made
        finally:
            made.stop()


@pytest.mark.slow
@pytest.mark.docker
def test_a_killed_engine_costs_attempts_and_no_reply(tmp_path: Path, engine: Engine) -> None:
    gate = Gate()

    def answer(request: Json) -> Answer:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        gate.answer(request)
        return completion(REPLY) if turn else completion(None, [READ])

    text = STUDY.replace(", mode: single_turn", "").replace("kind: local", "kind: docker")
    with serve(always=answer) as served:
        init_study(tmp_path / "study", text.format(served.url))
        study = pipeline.open_study(tmp_path / "study")
        promise_unchecked(study)
        sweep = begin(study)
        until(lambda: len(served.requests) == PARALLEL)
        engine.kill()
        gate.open.set()
        engine.start()
        outcome = finish(sweep)
    assert outcome["closed"]["finished"] == CELLS
    assert outcome["failures"], "sandboxes were lost"
    assert all(name.startswith("sandbox:") for name in outcome["failures"])
    assert len(served.requests) == 2 * CELLS, "the next attempt has the replies of the first"
    finished = [each for each in episodes_of(study) if each.stop is not StopReason.FAILED]
    assert len(finished) == len({episode.id for episode in finished}) == CELLS
    check_clean(study)
    until(lambda: not engine.containers())


READ = ("call-1", "read_file", {"path": "nothing"})

"""Faults of processes, hosts and networks in the middle of a sweep. After each the sweep goes on by
itself or by the same command: one attempt a cell, no more bought again than was on its way where
something died, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.sweep.worker_process import prepare_ray
from registry.sealing import decrypt
from study import pipeline
from study.workspace import manifest_of
from study.workspace.setup import init_study
from study.workspace.study import Study
from tests.harness.openai_server import Served, serve
from tests.hosts import BETWEEN, RAY_PORT, Network, network, why_not
from tests.study.conftest import promise_unchecked
from tests.study.test_operation import CELLS, STUDY, Gate, operated, until
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
def on_hosts(folder: Path, *names: str) -> Iterator[tuple[Network, Study, Gate, Served]]:
    """Hosts, a study, and the server of its model between them, whose replies wait."""
    gate = Gate()
    with ExitStack() as stack:
        made = hosts(stack, folder, *names)
        stack.callback(gate.open.set)
        with made.inside():
            served = stack.enter_context(serve(always=gate.answer, host=BETWEEN))
        init_study(folder / "study", STUDY.format(served.url))
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
    """Join the hosts into a cluster and return the options of a sweep on it. ``sandboxes`` has the
    number of workers that each host but the head may run."""
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

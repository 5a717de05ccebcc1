"""Sweeps that are killed, and sweeps on a cluster that loses nodes: nothing is lost, nothing is
done twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.episode import Episode
from harness.errors import HarnessError
from harness.sweep.leases import Progress
from harness.sweep.worker_process import prepare_ray
from registry.verify import verify_study
from study import pipeline
from study.sweeps.sweep import SweepRequest
from study.workspace.setup import init_study
from study.workspace.study import Study
from tests.study.conftest import draw_tiny

pytestmark = pytest.mark.ray

IN_HAND = 4  # more than a worker of these studies has at once
STUDY = """\
study: fault
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: SEEDS
models:
  first: {provider: scripted, agent: honest, error_rate: 0.2}
  second: {provider: scripted, agent: honest, error_rate: 0.4}
waves:
  - [first, second]
plan: {permutations: 999}
sandbox: {kind: local}
sweep: {parallel: 2}
"""


def make_study(folder: Path, seeds: int) -> Study:
    init_study(folder, STUDY.replace("SEEDS", str(seeds)))
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)
    return study


def start_sweep(study: Study, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "study.cli.main",
                "sweep",
                "--wave",
                "0",
                "--allow-dirty",
                "--json",
            ),
            *("--study", str(study.folder), *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 200) -> dict[str, Any]:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    outcome: dict[str, Any] = json.loads(out)
    return outcome


def results_of(study: Study) -> dict[str, bytes]:
    return {key: study.store.get(key) for key in study.store.list("results/")}


def wait_for_results(
    study: Study, process: subprocess.Popen[str], count: int, seconds: float = 120
) -> None:
    deadline = time.monotonic() + seconds
    while len(list(study.store.list("results/"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no results in time"
        time.sleep(0.1)


def episodes_of(study: Study) -> list[Episode]:
    from harness.storage import EPISODE_CODEC
    from registry.sealing import decrypt

    keys = study.identities()
    return [
        EPISODE_CODEC.decode(decrypt(study.store.get(key), keys, key))
        for key in study.store.list("attempts/")
    ]


@pytest.mark.slow
def test_a_killed_sweep_goes_on_without_losing_or_repeating_an_episode(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", 20)
    killed = start_sweep(study)
    wait_for_results(study, killed, 15)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    time.sleep(2)  # workers of the dead driver end on their own
    before = results_of(study)
    assert 15 <= len(before) < 80, "killed in the middle"
    outcome = finish(start_sweep(study))
    after = results_of(study)
    assert outcome["closed"]["owed"] == outcome["closed"]["finished"] == len(after) == 80
    assert {key: after[key] for key in before} == before
    assert len({episode.id for episode in episodes_of(study)}) == 80
    assert verify_study(study.store, study.identities()).holds


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_is_told_to_end_says_so_in_one_line_and_goes_on_later(
    tmp_path: Path, number: int
) -> None:
    study = make_study(tmp_path / "study", 20)
    process = start_sweep(study)
    wait_for_results(study, process, 5)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    *_, last = err.splitlines()
    assert last == "interrupted; finished work is kept: run the same command again"
    assert "SIGTERM" not in err
    assert finish(start_sweep(study))["closed"]["finished"] == 80


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that does no work and two worker nodes, all real raylets."""
    prepare_ray(None)
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False},
    )
    nodes = [made.add_node(num_cpus=1, resources={"sandbox": 2}) for _ in range(2)]
    yield made, nodes
    made.shutdown()


def test_a_sweep_on_two_raylets_survives_the_death_of_one(cluster: Any, tmp_path: Path) -> None:
    made, nodes = cluster
    study = make_study(tmp_path / "study", 30)
    sweep = start_sweep(study, "--address", made.address, "--workers", "2")
    wait_for_results(study, sweep, 20)
    made.remove_node(nodes[1], allow_graceful=False)
    before = results_of(study)
    assert len(before) < 120, "lost in the middle"
    outcome = finish(sweep)
    after = results_of(study)
    assert outcome["closed"]["finished"] == len(after) == 120
    assert {key: after[key] for key in before} == before
    episodes = episodes_of(study)
    assert len({episode.id for episode in episodes}) == 120
    assert all(episode.attempt == 1 for episode in episodes), "no attempt failed, none is repeated"


def test_no_cluster_at_the_address_is_one_clear_error(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", 2)
    process = start_sweep(study, "--address", "127.0.0.1:1")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err
    assert not list(study.store.list("results/"))


def own_workers() -> list[int]:
    """The pids of the Ray workers that this process started, at work on cells."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text()
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text()

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return [pid for pid in names if names[pid].startswith("ray::Worker") and ours(pid)]


@pytest.mark.slow
def test_workers_that_die_are_replaced_for_as_long_as_something_gets_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_ray(None)
    from harness.sweep import ray_actors as actors

    monkeypatch.setattr(actors._Workers, "MAX_DEATHS", 1)
    study, killed_at = make_study(tmp_path / "study", 20), [0]

    def watch(progress: Progress) -> None:
        # What a dead worker had in hand may be told of later: count what is beyond that.
        if progress.finished > killed_at[-1] + IN_HAND and len(killed_at) <= 3:
            for pid in own_workers():
                os.kill(pid, signal.SIGKILL)
                killed_at.append(progress.finished)

    outcome = pipeline.sweep(study, SweepRequest(0, allow_dirty=True), watch)
    assert len(killed_at) == 4, "three were killed"
    assert outcome.closed is not None
    assert outcome.closed.finished == 80
    assert all(episode.attempt == 1 for episode in episodes_of(study))


@pytest.mark.parametrize("said", ["The current node timed out during startup.\nMore.", ""])
def test_a_cluster_that_does_not_start_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    prepare_ray(None)
    from harness.sweep import ray_actors as actors

    def fail(**_: object) -> None:
        raise Exception(said)  # as Ray does on a machine that is too busy

    monkeypatch.setattr("ray.init", fail)
    expected = r"this machine: (The current|Exception).* run the same command again"
    with pytest.raises(HarnessError, match=expected) as told, actors.ray_session(None):
        raise AssertionError("there is no session")
    assert "More" not in str(told.value)

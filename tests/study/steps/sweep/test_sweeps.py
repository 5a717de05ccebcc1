"""Sweeps that are killed, and sweeps on a cluster that loses nodes: nothing is lost, nothing is
done twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.episode import Episode
from harness.errors import HarnessError
from harness.sweep.leases import Progress
from harness.sweep.worker_process import prepare_ray
from registry.result_row import Status
from registry.verify.verify import verify_study
from study import pipeline
from study.main import main
from study.steps.sweep.sweep import SweepRequest
from study.workspace.setup import init_study
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.harness.openai_server import Answer, Json, completion, failure, serve
from tests.study.conftest import draw_tiny, promise_unchecked

pytestmark = pytest.mark.ray
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


def start_sweep(
    study: Study, *options: str, wave: int = 0, **variables: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "study.main",
                "sweep",
                "--wave",
                str(wave),
                "--allow-dirty",
                "--json",
            ),
            *("--study", str(study.folder), *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | variables,
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

    own = study.keys()
    return [EPISODE_CODEC.read(study.store, key, own) for key in study.store.list("attempts/")]


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
    # A shell's background jobs ignore it, and so would the sweep.
    signal.signal(signal.SIGINT, signal.default_int_handler)
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


PAID_STUDY = STUDY.replace(
    "waves:",
    """\
  paid:
    provider: openai
    model: m-1
    base_url: http://127.0.0.1:9/v1
    api_key_env: NOVA_KEY
    context: 100000
    retention: none
waves:
  - {models: [paid], modes: {compute_average/easy: single_turn}}""",
)


@pytest.mark.slow
def test_nodes_that_cannot_work_are_refused_before_the_first_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_ray(None)
    from ray.cluster_utils import Cluster

    monkeypatch.setattr("harness.sweep.ray_cluster.JOIN_SECONDS", 3.0)
    init_study(tmp_path / "study", PAID_STUDY.replace("SEEDS", "2"))
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    pipeline.register(study)
    host = socket.gethostname()
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "resources": {"head": 1}},
    )

    def refusal(wave: int = 1) -> str:
        request = SweepRequest(
            wave, allow_dirty=True, allow_unknown_price=True, address=made.address
        )
        with pytest.raises(HarnessError) as caught:
            pipeline.sweep(study, request, lambda progress: None)
        assert not list(study.store.list("attempts/")), "nothing was leased"
        return str(caught.value)

    try:
        assert f"has joined {host} within 0.05 minutes" in refusal(), "no node comes"
        made.add_node(num_cpus=1)
        assert refusal().startswith(f"{host}: the resource 'sandbox' is missing")
        made.add_node(num_cpus=1, resources={"sandbox": 1})
        with monkeypatch.context() as environment:  # of the driver only
            environment.setenv("NOVA_KEY", "k")
            refused = refusal(wave=0)
        assert refused.startswith(f"{host}: model 'paid': the environment variable NOVA_KEY is not")
        sweep = start_sweep(study, "--address", "auto", wave=1, RAY_ADDRESS=made.address)
        assert finish(sweep)["closed"]["finished"] == 8, "the cluster does work, at auto"
    finally:
        made.shutdown()


def test_no_cluster_at_the_address_is_one_clear_error(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", 2)
    process = start_sweep(study, "--address", "127.0.0.1:1")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err
    assert not list(study.store.list("results/"))


def own_actors(kind: str) -> list[int]:
    """The pids of the Ray actors of a class that this process started."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text()
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text()

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return [pid for pid in names if names[pid].startswith(f"ray::{kind}") and ours(pid)]


OUTAGES = """\
study: outages
tasks: [{{family: compute_average, difficulty: easy, mode: single_turn}}]
seeds_per_arm: 3
models:
  gone: {{provider: openai, model: m, base_url: "{}", api_key_env: "", {usual}}}
  healthy: {{provider: openai, model: m, base_url: "{}", api_key_env: "", {usual}}}
  revoked: {{provider: openai, model: m, base_url: "{}", api_key_env: REVOKED, {usual}}}
waves: [[gone, healthy, revoked]]
plan: {{permutations: 199}}
sandbox: {{kind: local}}
sweep: {{parallel: 2}}
"""
CELLS = 6  # of each model


def test_a_sweep_waits_for_providers_and_stops_the_model_of_a_refused_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server is down until another's model is done, which waits for a fifth request to the
    first; then it throttles. One failure that counted against a cell would exhaust it."""
    prepare_ray(None)
    from harness.sweep import ray_actors as actors

    soon = failure(429, headers=(("Retry-After", "1"),))
    throttled, asked, through = iter([soon] * 4), threading.Event(), threading.Event()

    def be_gone(request: Json) -> Answer:
        if len(gone.requests) >= 5:
            asked.set()
        return next(throttled, completion("None.")) if through.is_set() else failure(503)

    def be_healthy(request: Json) -> Answer:
        if len(healthy.requests) >= CELLS:
            assert asked.wait(120)
            through.set()
        return completion("None.")

    def run_owed(
        study: Study,
        request: SweepRequest,
        context: Any,
        watch: Callable[[Progress], None],
        begin: Callable[[str], None],
    ) -> Progress:
        options = actors.SweepOptions(max_failures=1, probe_seconds=0.5)
        return actors.run_sweep(context, options, watch)

    monkeypatch.setenv("REVOKED", "key-of-the-third")
    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", run_owed)
    with (
        serve(always=be_gone) as gone,
        serve(always=be_healthy) as healthy,
        serve(always=lambda request: failure(401)) as revoked,
    ):
        urls = gone.url, healthy.url, revoked.url
        init_study(tmp_path, OUTAGES.format(*urls, usual="retries: 0, context: 100000"))
        promise_unchecked(pipeline.open_study(tmp_path))
        options = ("--allow-dirty", "--allow-unknown-price", "--study", str(tmp_path))
        swept = CliRunner().invoke(main, ["sweep", "--wave", "0", *options])
    assert swept.exit_code == 1, swept.output
    assert f"wave 0 stays open: still owed are {CELLS} episodes of revoked" in swept.stdout
    (row,) = [line for line in swept.stdout.splitlines() if line.startswith(" revoked")]
    assert "auth (provider)" in row
    assert f"the key in REVOKED is refused (401 or 403) at {revoked.url}" in row
    assert 1 <= len(revoked.requests) <= 2, "no more than were at work"
    assert len(healthy.requests) == CELLS, "each turn is bought once"
    wave = take_snapshot(pipeline.open_study(tmp_path)).waves[0]
    assert Status.MISSING not in {result.status for result in wave.results.values()}
    models = Counter(result.model for result in wave.results.values())
    assert models == {"gone": CELLS, "healthy": CELLS}


@pytest.mark.parametrize("said", ["The current node timed out during startup.\nMore.", ""])
def test_a_cluster_that_does_not_start_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    prepare_ray(None)
    from harness.sweep.ray_cluster import ray_session

    def fail(**_: object) -> None:
        raise Exception(said)  # as Ray does on a machine that is too busy

    monkeypatch.setattr("ray.init", fail)
    expected = r"this machine: (The current|Exception).* run the same command again"
    with pytest.raises(HarnessError, match=expected) as told, ray_session(None):
        raise AssertionError("there is no session")
    assert "More" not in str(told.value)

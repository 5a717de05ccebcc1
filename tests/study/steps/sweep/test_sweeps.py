"""Sweeps that are killed, and sweeps on a cluster that loses nodes: nothing is lost, nothing is
done twice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.seaweedfs import free_ports
from harness.episode import Episode
from harness.errors import HarnessError
from harness.sweep import drive
from harness.sweep.coordinator import SweepOptions
from harness.sweep.drive import LocalCrew, run_sweep
from harness.sweep.leases import Progress
from registry.result_row import Status
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.sweep import SweepRequest
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, completion, failure, serve
from tests.progress import wait_until
from tests.study.conftest import MARK, TESTED, draw_tiny, promise_unchecked, start_cluster

IN_HAND = 4  # more than a worker of these studies has at once
STUDY = cases(__file__, "study")


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


def episodes_of(study: Study) -> list[Episode]:
    from harness.storage import EPISODE_CODEC

    own = study.keys()
    return [EPISODE_CODEC.read(study.store, key, own) for key in study.store.list("attempts/")]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that does no work and two worker nodes, all real raylets."""
    with start_cluster({}, num_cpus=0) as made:
        yield made, [made.add_node(num_cpus=1, resources={"sandbox": 2}) for _ in range(2)]


@pytest.mark.ray
def test_a_sweep_on_two_raylets_survives_the_death_of_one(cluster: Any, tmp_path: Path) -> None:
    made, nodes = cluster
    study = make_study(tmp_path / "study", 12)
    sweep = start_sweep(study, "--address", made.address, "--workers", "2")
    wait_until(lambda: len(results_of(study)) >= 8)
    made.remove_node(nodes[1], allow_graceful=False)
    before = results_of(study)
    assert len(before) < 48, "lost in the middle"
    outcome = finish(sweep)
    after = results_of(study)
    assert outcome["closed"]["finished"] == len(after) == 48
    assert {key: after[key] for key in before} == before
    episodes = episodes_of(study)
    assert len({episode.id for episode in episodes}) == 48
    assert all(episode.attempt == 1 for episode in episodes), "no attempt failed, none is repeated"


PAID_STUDY = STUDY.replace("waves:", cases(__file__, "paid"))


@pytest.mark.slow
@pytest.mark.ray
def test_nodes_that_cannot_work_are_refused_before_the_first_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.sweep.ray_cluster.JOIN_SECONDS", 3.0)
    init_study(tmp_path / "study", PAID_STUDY.replace("SEEDS", "2"))
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    pipeline.register(study)
    host = socket.gethostname()

    def refusal(wave: int = 1) -> str:
        request = SweepRequest(
            wave, allow_dirty=True, allow_unknown_price=True, address=made.address
        )
        with pytest.raises(HarnessError) as caught:
            pipeline.sweep(study, request, lambda progress: None)
        assert not list(study.store.list("attempts/")), "nothing was leased"
        return str(caught.value)

    with start_cluster({}, num_cpus=0, resources={"head": 1}) as made:
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


def test_no_cluster_at_the_address_is_one_clear_error(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", 2)
    process = start_sweep(study, "--address", "127.0.0.1:1")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err
    assert not list(study.store.list("results/"))


def worker_processes(name: str) -> list[int]:
    """The pids of the processes that run cells for the test of this name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            runs = b"harness.sweep.worker_process" in (folder / "cmdline").read_bytes()
            if runs and f"{TESTED}={name}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


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


@pytest.mark.slow
def test_workers_that_die_are_replaced_for_as_long_as_something_gets_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    monkeypatch.setattr(drive, "MAX_DEATHS", 1)
    study, killed_at = make_study(tmp_path / "study", 20), [0]

    def watch(progress: Progress) -> None:
        # What a dead worker had in hand may be told of later: count what is beyond that.
        if progress.finished > killed_at[-1] + IN_HAND and len(killed_at) <= 3:
            for pid in own_actors("Worker") if place else worker_processes(MARK):
                os.kill(pid, signal.SIGKILL)
                killed_at.append(progress.finished)

    outcome = pipeline.sweep(study, SweepRequest(0, allow_dirty=True, address=place), watch)
    assert len(killed_at) == 4, "three were killed"
    assert outcome.closed is not None
    assert outcome.closed.finished == 80
    if place:  # such a worker process ends by itself, with what it has
        assert all(episode.attempt == 1 for episode in episodes_of(study))


OUTAGES = cases(__file__, "outages")
CELLS = 6  # of each model


def test_a_sweep_waits_for_providers_and_stops_the_model_of_a_refused_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server is down until another's model is done, which waits for a fifth request to the
    first; then it throttles. One failure that counted against a cell would exhaust it."""
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
        crew = LocalCrew(SweepOptions(max_failures=1, probe_seconds=0.5))
        return run_sweep(contextlib.nullcontext(crew), context, (1, 1), watch)

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


METERED = cases(__file__, "metered")


@pytest.fixture
def exporting(tmp_path: Path) -> dict[str, str]:
    """The environment of nodes that export metrics: with what deploy/requirements.lock adds here,
    and without the usual wait of ten seconds."""
    here = {each.name.lower().replace("_", "-") for each in distributions()}
    lock = (Path(__file__).parents[4] / "deploy/requirements.lock").read_text()
    packages = [each for each in re.split(r"^(?=\w)", lock, flags=re.MULTILINE) if "==" in each]
    lacking = [each for each in packages if each.partition("==")[0] not in here]
    (tmp_path / "lacking.txt").write_text("".join(lacking))
    variables = dict(os.environ)
    if "PIP_INDEX_URL" in variables:
        variables.setdefault("UV_DEFAULT_INDEX", variables["PIP_INDEX_URL"])
    target, lock_file = str(tmp_path / "packages"), str(tmp_path / "lacking.txt")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"),
            *("--python", sys.executable, "--target", target, "-r", lock_file),
        ],
        env=variables,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"ray[default] cannot be installed: {done.stderr.splitlines()[0]}")
    path = os.pathsep.join(filter(None, [*sys.path, target]))
    return {"PYTHONPATH": path, "RAY_metrics_report_interval_ms": "500"}


@pytest.mark.slow
@pytest.mark.ray
def test_metrics_are_at_the_endpoint_of_a_node(tmp_path: Path, exporting: dict[str, str]) -> None:
    seen, first = threading.Event(), iter([failure(503)])

    def answer(request: Json) -> Answer:
        if len(server.requests) > 4:
            assert seen.wait(120)
        usage = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
        return next(first, completion("None.", usage=usage))

    gcs, export, client, agent = free_ports(4)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5e" * 32}
    start = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        *(f"--port={gcs}", f"--metrics-export-port={export}", "--num-cpus=1"),
        *(f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"),
        *("--include-dashboard=false", "--disable-usage-stats", '--resources={"sandbox": 1}'),
    ]
    head = subprocess.Popen(
        start,
        env=os.environ | exporting | token,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with serve(always=answer) as server:
        try:
            init_study(tmp_path / "study", METERED.format(server.url))
            study = pipeline.open_study(tmp_path / "study")
            promise_unchecked(study)
            wait_until(lambda: can_connect(gcs))
            address = ("--address", f"127.0.0.1:{gcs}", "--allow-unknown-price")
            sweep = start_sweep(study, *address, **token)

            def exported() -> str:
                """The endpoint's text, once it has the replies of all attempts that ended."""
                text = read_metrics(export)
                replies = metric(text, "replies_total")
                finished = metric(text, "episodes", 'state="finished"')
                return text if replies and replies == finished else ""

            wait_until(lambda: bool(exported()))
            text = exported()
            seen.set()
            assert finish(sweep)["closed"]["finished"] == CELLS
        finally:
            seen.set()
            os.killpg(head.pid, signal.SIGKILL)
            head.wait()
    replies = metric(text, "replies_total")
    assert replies is not None
    assert 1 <= replies <= 4, "the others wait"
    assert metric(text, "input_tokens_total") == 900 * replies
    assert metric(text, "replies_of_unknown_cost_total") == replies
    assert metric(text, "failed_attempts_total", 'class="provider:overload"') == 1
    assert metric(text, "usd_total") is None, "it is unknown"
    keys = [*study.identities(), *(entry.seed for entry in study.entries())]
    assert not any(key in text for key in keys)


def read_metrics(port: int) -> str:
    """What Prometheus reads at a node; "" before it can."""
    with contextlib.suppress(OSError):
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            return str(response.read().decode())
    return ""


def metric(text: str, name: str, tag: str = "") -> float | None:
    """The value of the one model's metric."""
    lines = [each for each in text.splitlines() if each.startswith(f"ray_dosimeter_{name}{{")]
    values = [
        float(each.rpartition(" ")[2])
        for each in lines
        if 'model="metered"' in each and tag in each
    ]
    assert len(values) <= 1, lines
    return values[0] if values else None


def can_connect(port: int) -> bool:
    """True if a process listens at this port."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False

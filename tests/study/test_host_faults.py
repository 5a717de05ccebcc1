"""Faults of hosts and of the networks between them in the middle of a sweep: hosts that are lost,
cut off, or have another time, and the demo on several of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from harness.storage import RESULTS
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.demo.demo import write_demo
from study.steps.init.folder import init_study
from study.workspace.study import Study
from tests.cases import cases
from tests.conftest import ROOT
from tests.harness.openai_server import Served, serve
from tests.hosts import BETWEEN, RAY_PORT, Host, Network, network, why_not
from tests.progress import wait_until as until
from tests.study.conftest import promise_unchecked
from tests.study.steps.sweep.test_operation import STUDY, Gate, as_on_another_host
from tests.study.steps.sweep.test_spending import DEAREST, Provider, bought, make_study
from tests.study.steps.sweep.test_sweeps import episodes_of, finish, worker_processes
from tests.study.test_faults import (
    IN_TURNS,
    MAIN,
    PARALLEL,
    TESTED,
    check_clean,
    check_swept,
    command,
    refused,
)

pytestmark = pytest.mark.ray


@contextmanager
def on_hosts(
    folder: Path, *names: str, text: str = STUDY
) -> Iterator[tuple[Network, Study, Gate, Served]]:
    """Hosts, a study, and the server of its model between them, whose replies wait."""
    gate = Gate()
    with ExitStack() as stack:
        made = hosts(stack, folder, *names)
        stack.callback(gate.open.set)
        with made.inside():
            served = stack.enter_context(serve(always=gate.answer, host=BETWEEN))
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
    """Join the hosts into a cluster and return the options of a sweep on it. ``sandboxes`` has the
    number of workers that each host but the head may run."""
    head = made.hosts["head"]
    head.join(None, cpus=0, resources='{"head":1}')
    with ThreadPoolExecutor() as pool:
        joined = [
            pool.submit(made.hosts[name].join, head, resources=f'{{"sandbox":{count}}}')
            for name, count in sandboxes.items()
        ]
    for each in joined:
        each.result()
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


TURNS = 2  # of an agent that uses no tool, and is asked once to go on


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("healed", [True, False])
def test_a_host_that_is_cut_off_buys_no_turn_that_another_buys(
    tmp_path: Path, healed: bool
) -> None:
    """It reaches the model and the store still, but not the head, which replaces its worker; or
    reaches it again while the replies are on their way."""
    text = IN_TURNS.replace("arm: 8", "arm: 4")
    with on_hosts(tmp_path, "head", "w1", "w2", text=text) as (made, study, gate, served):
        options = join(made, w1=2, w2=1)
        sweep = made.hosts["head"].start(*command(study, *options))
        until(lambda: len(served.requests) == 2 * PARALLEL or sweep.poll() is not None)
        made.cut("w2", from_host="head")
        until(lambda: len(workers_on(made.hosts["w1"], study)) == 2 or sweep.poll() is not None)
        if healed:
            made.heal("w2", from_host="head")
        gate.open.set()
        outcome = finish(sweep)
        if not healed:
            made.heal("w2", from_host="head")
        assert outcome["closed"]["finished"] == 2 * PARALLEL
        assert (len(served.requests), outcome["lost"]) == (2 * PARALLEL * TURNS, 0)
        assert len(episodes_of(study)) == 2 * PARALLEL
        check_clean(study, *folders_of(made))


def workers_on(host: Host, study: Study) -> list[int]:
    """The worker processes of a sweep on a host."""
    there = os.readlink(f"/proc/{host.first}/ns/pid")
    found = worker_processes(str(study.folder))
    return [pid for pid in found if os.readlink(f"/proc/{pid}/ns/pid") == there]


SKEWED = cases(__file__, "skewed")


def skewed_clock(folder: Path) -> dict[str, str]:
    """The environment in which clocks are an hour behind."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, with which to set back a clock")
    source, library = folder / "skewed.c", folder / "skewed.so"
    source.write_text(SKEWED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.mark.slow
@pytest.mark.timeout(400)
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
        check_swept(study, finish(again), served, lost=PARALLEL)
        begun, closed = (
            datetime.fromisoformat(study.ledger.find(kind)[0].time)
            for kind in ("run-manifest", "wave-closed")
        )
        assert closed == begun, "the clock was behind, and the dates stay in order"
        verified = verify_study(study.store, study.identities())
        assert verified.holds, verified.problems
        check_clean(study, *folders_of(made))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_frozen_driver_and_the_one_that_takes_over_keep_one_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the price of the replies that were on their way to the frozen one."""
    monkeypatch.setenv("NO_KEY", "sk-none")
    provider, budget = Provider(0.5), Decimal("2.5")
    with ExitStack() as stack:
        made = hosts(stack, tmp_path, "here", "there")
        with made.inside():
            served = stack.enter_context(serve(always=provider.answer, host=BETWEEN))
        study = make_study(tmp_path / "study", served.url, float(budget))
        other = as_on_another_host(study, tmp_path / "other")
        shutil.copy(study.folder / "prices.yaml", other.folder)
        here, there = made.hosts["here"], made.hosts["there"]
        first = here.start(*command(study))
        until(lambda: len(bought(study)) >= 3 or first.poll() is not None)
        here.freeze()
        until(lambda: provider.idle)
        on_its_way = len(provider.sold) - len(bought(study))
        second = there.start(*command(other))
        out, err = second.communicate(timeout=400)
        assert second.returncode == 1, err
        assert "Traceback" not in err
        sold = len(provider.sold)
        here.thaw()
        _, err = first.communicate(timeout=200)
        assert first.returncode in (1, 2), err
        assert "Traceback" not in err
        (account, _) = json.loads(out)["budget"]
        assert Decimal(str(account["spent_usd"])) <= budget
        assert provider.bill(study.folder) <= budget + on_its_way * DEAREST
        assert len(provider.sold) == sold > 3 + on_its_way, "the frozen one buys nothing more"
        check_clean(study, *folders_of(made))


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.s3
@pytest.mark.timeout(1200)
def test_the_demo_runs_on_two_hosts_with_a_store_between_them(
    tmp_path: Path, s3_credentials: None
) -> None:
    """As on one machine, but for the addresses of cluster and store in its study.yaml. The hosts
    share this machine's engine."""
    with ExitStack() as stack:
        made = hosts(stack, tmp_path, "head", "w1", "w2")
        folder, weed = tmp_path / "study", tmp_path / "weed"
        weed.mkdir()
        _, address, *_ = join(made, w1=1, w2=1)
        with made.inside():
            store = stack.enter_context(store_between(weed))
            write_demo_on(folder, address, store)
        demo = made.hosts["head"].start(*MAIN, "demo", "--study", str(folder), "--json")
        out, err = demo.communicate(timeout=1000)
        assert demo.returncode == 0, err
        verdicts = {row["model"]: row["verdict"] for row in json.loads(out)["models"]}
        assert verdicts["strong-1"] == verdicts["strong-2"] == "contaminated"
        assert not {verdicts["honest-1"], verdicts["honest-2"]} & {"contaminated", "withheld"}
        with made.inside():
            study = pipeline.open_study(folder)
            verified = verify_study(study.store, study.identities())
            assert verified.holds, verified.problems
            assert len(list(study.store.list(RESULTS))) == (4 + 4 + 5) * 52
            check_clean(study, *folders_of(made))
    for name in ("w1", "w2"):
        assert any((made.hosts[name].folder / "ray").rglob("worker-*")), "it had no work"


@contextmanager
def store_between(folder: Path) -> Iterator[str]:
    """The address of a study's store in SeaweedFS between the hosts; to be opened there."""
    script = [sys.executable, "benchmarks/seaweedfs.py", str(folder), BETWEEN]
    with subprocess.Popen(
        script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        yield f"s3://{ready['bucket']}/demo?endpoint={ready['endpoint']}&region=us-east-1"
        server.stdin.close()


def write_demo_on(folder: Path, address: str, store: str) -> None:
    """Write the demo's study for a cluster and a store."""
    write_demo(folder, "docker")
    text = (folder / "study.yaml").read_text(encoding="utf-8")
    there = f"sweep: {{parallel: 6, workers: 2, address: '{address}'}}\nstore: '{store}'"
    assert "sweep: {parallel: 6}" in text
    (folder / "study.yaml").write_text(text.replace("sweep: {parallel: 6}", there), "utf-8")

"""Sweeps whose store goes away: each waits, goes on by itself, and buys no reply again."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pytest

from registry.verify import verify_study
from study import pipeline
from study.workspace.setup import init_study
from study.workspace.study import Study
from tests.conftest import S3Server
from tests.faults import Fault, fault_proxy, fill, remount, spooled
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.study.conftest import draw_tiny
from tests.study.test_sweeps import start_sweep

pytestmark = [pytest.mark.ray, pytest.mark.slow]

AT_ONCE, OWED = 6, 24
STUDY = f"""\
study: away
tasks:
  - {{family: compute_average, difficulty: easy, mode: single_turn}}
seeds_per_arm: {OWED // 2}
models:
  bought: {{provider: openai, model: mock, base_url: "URL", api_key_env: "", send_seed: true,
           retries: 0, context: 100000, retention: none}}
waves:
  - [bought]
plan: {{permutations: 199}}
sandbox: {{kind: local}}
sweep: {{parallel: {AT_ONCE}}}
store: STORE
"""


def answer(request: Json) -> Answer:
    time.sleep(1.0)
    return completion('So it is.\n<answer>\n{"average": 1.0}\n</answer>')


@contextmanager
def served_study(tmp_path: Path, store: str) -> Iterator[tuple[Study, Served]]:
    with serve(always=answer) as served:
        folder = tmp_path / "study"
        init_study(folder, STUDY.replace("URL", served.url).replace("STORE", store))
        study = pipeline.open_study(folder)
        draw_tiny(study)
        pipeline.register(study)
        yield study, served


class Sweep:
    """A sweep by the command line, and the lines that it writes to stderr."""

    def __init__(self, study: Study, tmp_path: Path) -> None:
        # Ray puts sockets into its folder, whose path must be short.
        folders = {"TMPDIR": str(tmp_path), "RAY_TMPDIR": tempfile.gettempdir()}
        self.process = start_sweep(study, "--allow-unknown-price", **folders)
        self.errors: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End its processes, if the test fails."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)

    def end(self) -> dict[str, Any]:
        """Wait for the end, and return the outcome."""
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        assert self.process.wait(60) == 0, self.errors
        outcome: dict[str, Any] = json.loads(text)
        return outcome

    def pauses(self) -> list[bool]:
        """Whether a host waits for the store, each time that this changes."""
        lines = [json.loads(line) for line in self.errors if line.startswith("{")]
        states = [bool(line["no_store"]) for line in lines if "no_store" in line]
        return [state for state, _ in groupby(states)]

    def until(self, true: Callable[[], object]) -> None:
        """Wait for something that the sweep brings about."""
        deadline = time.monotonic() + 120
        while not true():
            assert self.process.poll() is None, "".join(self.errors[-30:])
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.05)


def pass_fault(
    study: Study,
    served: Served,
    tmp_path: Path,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    """Sweep; begin a fault while replies are on their way, end it, and check the outcome."""
    with Sweep(study, tmp_path) as sweep:
        sweep.until(lambda: len(served.requests) >= AT_ONCE)
        begin()
        sweep.until(lambda: True in sweep.pauses())
        bought = len(served.requests)
        time.sleep(3)
        assert len(served.requests) == bought < OWED, "nothing is bought meanwhile"
        end()
        outcome = sweep.end()
    assert sweep.pauses() == [False, True, False], sweep.errors
    check(study, served, outcome, tmp_path)


def check(study: Study, served: Served, outcome: dict[str, Any], tmp_path: Path) -> None:
    """Every episode has its result, no reply was bought again, and nothing is left behind."""
    assert (outcome["closed"]["owed"], outcome["closed"]["finished"]) == (OWED, OWED)
    seeds = [request["seed"] for request in served.requests]
    assert len(seeds) == len(set(seeds)) == OWED
    assert spooled(tmp_path) == []
    assert verify_study(study.store, study.identities()).holds


@pytest.mark.s3
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.GONE, Fault.CUT])
def test_a_sweep_goes_on_when_s3_is_back(tmp_path: Path, seaweedfs: S3Server, fault: Fault) -> None:
    with fault_proxy(seaweedfs.endpoint) as proxy:
        uri = f"s3://{seaweedfs.bucket}/away-{fault}?endpoint={proxy.url}&region=us-east-1"
        with served_study(tmp_path, uri) as (study, served):
            pass_fault(study, served, tmp_path, lambda: proxy.begin(fault, count=9), proxy.end)


@pytest.mark.s3
def test_a_sweep_goes_on_with_a_slow_s3(tmp_path: Path, seaweedfs: S3Server) -> None:
    with fault_proxy(seaweedfs.endpoint) as proxy:
        uri = f"s3://{seaweedfs.bucket}/slow?endpoint={proxy.url}&region=us-east-1"
        with served_study(tmp_path, uri) as (study, served):
            with Sweep(study, tmp_path) as sweep:
                sweep.until(lambda: len(served.requests) >= AT_ONCE)
                proxy.begin(Fault.SLOW, seconds=0.5)
                sweep.until(lambda: len(served.requests) >= 2 * AT_ONCE)
                proxy.end()
                outcome = sweep.end()
            check(study, served, outcome, tmp_path)


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_sweep_goes_on_when_its_disk_can_be_written_again(
    tmp_path: Path, small_disk: Path, fault: str
) -> None:
    remount(small_disk, "size=4m")
    with served_study(tmp_path, str(small_disk / "store")) as (study, served):
        if fault == "full":
            large = small_disk / "large"
            pass_fault(study, served, tmp_path, lambda: fill(small_disk), large.unlink)
        else:
            begin, end = (lambda: remount(small_disk, "ro")), (lambda: remount(small_disk, "rw"))
            pass_fault(study, served, tmp_path, begin, end)


def test_a_killed_sweep_has_its_spooled_replies_stored_by_the_next(
    tmp_path: Path, small_disk: Path
) -> None:
    """All its processes are killed while replies wait, the worker's own too."""
    remount(small_disk, "size=4m")
    with served_study(tmp_path, str(small_disk / "store")) as (study, served):
        with Sweep(study, tmp_path) as killed:
            killed.until(lambda: len(served.requests) >= AT_ONCE)
            remount(small_disk, "ro")
            killed.until(lambda: len(spooled(tmp_path)) >= AT_ONCE)
        kill_workers(tmp_path)
        assert len(spooled(tmp_path)) >= AT_ONCE
        remount(small_disk, "rw")
        with Sweep(study, tmp_path) as sweep:
            outcome = sweep.end()
        check(study, served, outcome, tmp_path)


def kill_workers(tmp_path: Path) -> None:
    """Kill the worker processes of a sweep, which are no children of it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"TMPDIR={tmp_path}\0".encode() in (process / "environ").read_bytes()
            if ours and b"harness.sweep.worker_process" in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)

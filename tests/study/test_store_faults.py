"""Sweeps whose store goes away: each waits, goes on by itself, and buys no reply again."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pytest

from registry.verify.verify import verify_study
from study.workspace.study import Study
from tests.cases import cases
from tests.conftest import S3Server
from tests.faults import Fault, fault_proxy, fill, outbox_files, remount
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.progress import Stall
from tests.study.conftest import make_study
from tests.study.steps.sweep.test_sweeps import start_sweep
from tests.study.test_faults import check_clean, cluster, marks, processes_of

pytestmark = [pytest.mark.ray, pytest.mark.slow]

AT_ONCE, OWED = 6, 24
STUDY = cases(__file__, "study")


def answer(request: Json) -> Answer:
    time.sleep(1.0)
    return completion('So it is.\n<answer>\n{"average": 1.0}\n</answer>')


@contextmanager
def served_study(tmp_path: Path, store: str) -> Iterator[tuple[Study, Served]]:
    with serve(always=answer) as served:
        folder = tmp_path / "study"
        study = make_study(folder, STUDY.replace("URL", served.url).replace("STORE", store))
        yield study, served


class Sweep:
    """A sweep by the command line, and the lines that it writes to stderr."""

    def __init__(self, study: Study, *options: str) -> None:
        self.process = start_sweep(study, "--allow-unknown-price", *options, **marks(study))
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End its processes, if the test fails."""
        with self.process:  # its pipes are closed, too
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._reader.join()

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
        stall = Stall(lambda: len(self.errors))
        while not true():
            assert self.process.poll() is None, "".join(self.errors[-30:])
            assert not stall.over(), self.errors
            time.sleep(0.05)


def pass_fault(
    study: Study,
    served: Served,
    begin: Callable[[], object],
    end: Callable[[], object],
    *options: str,
    seconds: float = 3.0,
) -> None:
    """Sweep; begin a fault while replies are on their way, end it, and check the outcome."""
    with Sweep(study, *options) as sweep:
        sweep.until(lambda: len(served.requests) >= AT_ONCE)
        begin()
        sweep.until(lambda: True in sweep.pauses())
        time.sleep(2)  # what was begun before the fault is answered
        bought = len(served.requests)
        time.sleep(seconds)
        assert len(served.requests) == bought < OWED, "nothing is bought meanwhile"
        end()
        outcome = sweep.end()
    assert sweep.pauses() == [False, True, False], sweep.errors
    check(study, served, outcome)


def check(study: Study, served: Served, outcome: dict[str, Any]) -> None:
    """Every episode has its result, no reply was bought again, and nothing is left behind."""
    assert (outcome["closed"]["owed"], outcome["closed"]["finished"]) == (OWED, OWED)
    seeds = [request["seed"] for request in served.requests]
    assert len(seeds) == len(set(seeds)) == OWED
    assert outbox_files(temporary_of(study)) == []
    assert verify_study(study.store, study.identities()).holds
    check_clean(study)


def temporary_of(study: Study) -> Path:
    """The folder for temporary files of its sweeps' processes."""
    return Path(marks(study)["TMPDIR"])


LONG = 100.0  # seconds: longer than a lease, and than a driver is waited for that was not heard of


@pytest.mark.s3
@pytest.mark.parametrize(
    ("fault", "seconds"), [(Fault.ERROR, LONG), (Fault.GONE, 3.0), (Fault.CUT, 3.0)]
)
def test_a_sweep_goes_on_when_s3_is_back(
    tmp_path: Path, seaweedfs: S3Server, fault: Fault, seconds: float
) -> None:
    with fault_proxy(seaweedfs.endpoint) as proxy:
        uri = f"s3://{seaweedfs.bucket}/away-{fault}?endpoint={proxy.url}&region=us-east-1"
        with served_study(tmp_path, uri) as (study, served):
            begin = partial(proxy.begin, fault, count=9)
            pass_fault(study, served, begin, proxy.end, seconds=seconds)


@pytest.mark.s3
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.GONE])
def test_two_nodes_go_on_when_s3_is_back(tmp_path: Path, seaweedfs: S3Server, fault: Fault) -> None:
    with fault_proxy(seaweedfs.endpoint) as proxy:
        uri = f"s3://{seaweedfs.bucket}/nodes-{fault}?endpoint={proxy.url}&region=us-east-1"
        with served_study(tmp_path, uri) as (study, served), cluster(2, study) as (made, _):
            options = ("--address", made.address, "--workers", "2", "--parallel", "3")
            pass_fault(study, served, partial(proxy.begin, fault), proxy.end, *options)


@pytest.mark.s3
def test_a_sweep_goes_on_with_a_slow_s3(tmp_path: Path, seaweedfs: S3Server) -> None:
    with fault_proxy(seaweedfs.endpoint) as proxy:
        uri = f"s3://{seaweedfs.bucket}/slow?endpoint={proxy.url}&region=us-east-1"
        with served_study(tmp_path, uri) as (study, served):
            with Sweep(study) as sweep:
                sweep.until(lambda: len(served.requests) >= AT_ONCE)
                proxy.begin(Fault.SLOW, seconds=0.5)
                sweep.until(lambda: len(served.requests) >= 2 * AT_ONCE)
                proxy.end()
                outcome = sweep.end()
            check(study, served, outcome)


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_sweep_goes_on_when_its_disk_can_be_written_again(
    tmp_path: Path, small_disk: Path, fault: str
) -> None:
    remount(small_disk, "size=4m")
    with served_study(tmp_path, str(small_disk / "store")) as (study, served):
        if fault == "full":
            large = small_disk / "large"
            pass_fault(study, served, lambda: fill(small_disk), large.unlink)
        else:
            begin, end = (lambda: remount(small_disk, "ro")), (lambda: remount(small_disk, "rw"))
            pass_fault(study, served, begin, end)


def test_a_killed_sweep_has_the_replies_in_its_outbox_stored_by_the_next(
    tmp_path: Path, small_disk: Path
) -> None:
    """All its processes are killed while replies wait, the worker's own too."""
    remount(small_disk, "size=4m")
    with served_study(tmp_path, str(small_disk / "store")) as (study, served):
        with Sweep(study) as killed:
            killed.until(lambda: len(served.requests) >= AT_ONCE)
            remount(small_disk, "ro")
            killed.until(lambda: len(outbox_files(temporary_of(study))) >= AT_ONCE)
        for pid in processes_of(study, b"harness.sweep.worker_process"):  # no children of it
            os.kill(pid, signal.SIGKILL)
        assert len(outbox_files(temporary_of(study))) >= AT_ONCE
        remount(small_disk, "rw")
        with Sweep(study) as sweep:
            outcome = sweep.end()
        check(study, served, outcome)

"""Sweeps of which a part is killed, that others begin too, and that an operator pauses, stops,
leaves and follows: each turn is bought once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.seaweedfs import free_ports
from harness.errors import SweptElsewhere
from harness.storage import RESULTS
from harness.sweep import drive, epochs
from harness.sweep.epochs import Process
from harness.sweep.governor import FailedAttempts
from harness.sweep.leases import Progress
from registry.canonical import digest_value
from registry.ledger.records import record_body
from registry.provenance import utc_now
from registry.result_row import Status
from registry.verify.verify import verify_study
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.manifests import begin_wave, drift
from study.steps.sweep.sweep import SweepRequest
from study.workspace.setup import NO_IMAGE
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifest_of, manifests_of
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.progress import wait_until as until
from tests.study.conftest import MARK, TESTED, promise_unchecked, start_cluster
from tests.study.steps.sweep.test_sweeps import finish, own_actors, start_sweep, worker_processes

STUDY, AUTOSCALER = cases(__file__, "study"), cases(__file__, "autoscaler")
CELLS = 16
SLOW = pytest.mark.slow
OPTIONS = ("--allow-dirty", "--allow-unknown-price")
REQUEST = SweepRequest(0, allow_dirty=True, allow_unknown_price=True)


class Gate:
    """Holds replies back until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reply: Callable[[Json], Answer] = lambda request: completion("None.")

    def answer(self, request: Json) -> Answer:
        reply = self.reply(request)
        assert self.open.wait(120)
        return reply


@contextmanager
def operated(folder: Path, text: str = STUDY) -> Iterator[tuple[Study, Gate, Served]]:
    """A study, and the server of its model, whose replies wait."""
    gate = Gate()
    with serve(always=gate.answer) as served:
        init_study(folder, text.format(served.url))
        study = pipeline.open_study(folder)
        promise_unchecked(study)
        try:
            yield study, gate, served
        finally:
            gate.open.set()


def call(*words: str, study: Study) -> Result:
    return CliRunner().invoke(main, [*words, "--study", str(study.folder)])


class Swept(threading.Thread):
    """A sweep in a thread of this process."""

    def __init__(self, study: Study, place: str | None = None, **options: Any) -> None:
        super().__init__(daemon=True)
        self.study, self.request = study, replace(REQUEST, address=place, **options)
        self.seen: list[Progress] = []
        self.outcome: Any = None
        self.start()

    def run(self) -> None:
        self.outcome = pipeline.sweep(self.study, self.request, self.seen.append)

    def end(self) -> Any:
        self.join(180)
        assert not self.is_alive()
        return self.outcome


@pytest.mark.ray
def test_a_killed_coordinator_goes_on_with_what_its_workers_hold(
    tmp_path: Path, ray_address: str
) -> None:
    with operated(tmp_path / "study") as (study, gate, served):
        sweep = Swept(study, ray_address)
        until(lambda: len(served.requests) == 4)
        (pid,) = own_actors("Coordinator")
        before = len(sweep.seen)
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(sweep.seen) > before and own_actors("Coordinator") not in ([], [pid]))
        until(lambda: sweep.seen[-1].leased == 4)
        gate.open.set()
        closed = sweep.end().closed
    assert (closed.finished, len(served.requests)) == (CELLS, CELLS), "none is bought twice"


def test_a_killed_worker_process_is_a_failure_of_its_episodes(
    tmp_path: Path, place: str | None
) -> None:
    with operated(tmp_path / "study") as (study, gate, served):
        sweep = Swept(study, place)
        until(lambda: len(served.requests) == 4)
        (pid,) = worker_processes(MARK)
        os.kill(pid, signal.SIGKILL)
        gate.open.set()
        outcome = sweep.end()
    assert outcome.closed.finished == CELLS
    failures = {each.model: each.failures for each in outcome.progress.models if each.failures}
    assert failures == {"slow": (FailedAttempts("worker:killed", attempts=4, cells=4),)}
    assert outcome.progress.lost == len(served.requests) - CELLS == 4


def test_a_drained_worker_leaves_the_rest_to_another(tmp_path: Path, place: str | None) -> None:
    """Here the sweep ends, as its machine does; a cluster has other nodes."""
    with operated(tmp_path / "study") as (study, gate, served):
        sweep = Swept(study, place)
        until(lambda: len(served.requests) == 4)
        (pid,) = worker_processes(MARK)
        os.kill(pid, signal.SIGTERM)
        gate.open.set()
        outcome = sweep.end()
        if place is None:
            assert (outcome.closed, len(served.requests)) == (None, 4), "it leases nothing more"
            again = call("sweep", "--wave", "0", *OPTIONS, study=study)
            assert again.exit_code == 0, again.output
        else:
            assert (outcome.closed.finished, outcome.progress.lost) == (CELLS, 0)
        assert len(served.requests) == CELLS, "none is bought twice"


@pytest.mark.ray
@pytest.mark.slow
def test_a_worker_without_a_node_keeps_no_sweep_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_address: str
) -> None:
    monkeypatch.setenv(TESTED, MARK)
    with operated(tmp_path / "study") as (study, gate, served):
        sweep = Swept(study, ray_address, workers=(3, 3), parallel=8)
        until(lambda: len(served.requests) == CELLS and len(worker_processes(MARK)) == 3)
        for pid in worker_processes(MARK):
            os.kill(pid, signal.SIGTERM)
        gate.open.set()
        assert sweep.end().closed.finished == CELLS


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=SLOW)])
def test_an_interrupted_sweep_stores_what_is_on_its_way(tmp_path: Path, number: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    with operated(tmp_path / "study") as (study, gate, served):
        process = start_sweep(study, OPTIONS[1])
        until(lambda: len(served.requests) == 4)
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        gate.open.set()
        _, err = process.communicate(timeout=60)
        assert len(list(study.store.list(RESULTS))) == len(served.requests) == 4
        *_, last = err.splitlines()
        assert last == "interrupted; finished work is kept: run the same command again"
        assert process.returncode == 130, err
        assert finish(start_sweep(study, OPTIONS[1]))["closed"]["finished"] == CELLS


def test_workers_are_started_while_there_is_work_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    monkeypatch.setattr(drive, "_GROW_SECONDS", 0.5)
    with operated(tmp_path / "study") as (study, gate, served):
        sweep = Swept(study, place, workers=(1, 3))
        until(lambda: len(served.requests) == 12)
        assert len(worker_processes(MARK)) == 3
        gate.open.set()
        assert sweep.end().closed.finished == len(served.requests) == CELLS


@pytest.mark.slow
@pytest.mark.ray
def test_an_autoscaler_follows_what_is_owed(tmp_path: Path) -> None:
    """Ray's own, which starts nodes as processes of this machine."""
    (port,) = free_ports(1)
    (tmp_path / "cluster.json").write_text(json.dumps(AUTOSCALER).replace("PORT", str(port)))
    head = {"gcs_server_port": port, "autoscaling_config": str(tmp_path / "cluster.json")}
    with (
        start_cluster(cases(__file__, "variables"), num_cpus=0, **head) as made,
        operated(tmp_path / "study") as (study, gate, served),
    ):
        tail = threading.Event()

        def reply(request: Json) -> Answer:
            last = request["messages"] == served.requests[0]["messages"]
            assert not last or tail.wait(400)
            return completion("None.")

        def nodes() -> int:
            return len([node for node in made.global_state.node_table() if node["Alive"]]) - 1

        gate.reply = reply
        sweep = Swept(study, made.address, workers=(1, 3))
        until(lambda: (len(served.requests), nodes()) == (12, 3))
        gate.open.set()
        until(lambda: nodes() == 1)
        assert len(served.requests) == CELLS, "all but one were answered"
        tail.set()
        assert sweep.end().closed.finished == CELLS
        until(lambda: nodes() == 0)
    assert len(served.requests) == CELLS, "none is bought twice"


def test_logs_and_last_metrics_are_for_machines_to_read(tmp_path: Path) -> None:
    with operated(tmp_path / "study") as (study, gate, _):
        first = iter([failure(400)])
        gate.reply = lambda request: next(first, completion("None."))
        gate.open.set()
        file = tmp_path / "metrics.prom"
        variables = {"DOSIMETER_LOG": "json", "DOSIMETER_METRICS": str(file)}
        with start_sweep(study, OPTIONS[1], **variables) as process:
            _, logs = process.communicate(timeout=200)
    lines = [json.loads(line) for line in logs.splitlines() if '"logger"' in line]
    run = digest_value(record_body(manifest_of(study.ledger, 0))).removeprefix("sha256:")[:12]
    assert {line["run"] for line in lines if line["logger"].startswith("harness.sweep")} == {run}
    assert logs.count("opened epoch 1") == 1
    (failed,) = (line for line in lines if "retry in" in line["message"])
    assert failed["cell"] in take_snapshot(study).waves[0].results
    assert failed["worker"] == "000001-1"
    finished = f'ray_dosimeter_episodes{{run="{run}",model="slow",state="finished"}} {CELLS}\n'
    assert finished in file.read_text()


@pytest.mark.slow
def test_an_episode_that_kills_its_worker_each_time_is_closed_as_missing(
    tmp_path: Path, place: str | None
) -> None:

    def kill(request: Json) -> Answer:
        if request["messages"] == served.requests[0]["messages"]:
            (pid,) = worker_processes(MARK)
            os.kill(pid, signal.SIGKILL)
        return completion("None.")

    with serve(always=kill) as served:
        init_study(
            tmp_path / "study", STUDY.format(served.url).replace("parallel: 4", "parallel: 1")
        )
        study = pipeline.open_study(tmp_path / "study")
        promise_unchecked(study)
        outcome = Swept(study, place).end()
    assert outcome.closed is None
    assert (outcome.progress.finished, outcome.progress.exhausted) == (CELLS - 1, 1)
    assert dict(outcome.progress.failures) == {"worker:killed": 3}
    closed = call("wave", "close", "0", study=study)
    assert closed.exit_code == 0, closed.output
    assert f"{CELLS - 1} scored, 1 missing" in closed.output
    wave = take_snapshot(study).waves[0]
    (missing,) = (each for each in wave.results.values() if each.status is Status.MISSING)
    assert (missing.error_class, missing.score) == ("worker:killed", None)
    assert verify_study(study.store, study.identities()).holds


def test_a_second_driver_leaves_a_sweep_alone_and_an_operator_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    monkeypatch.setattr(epochs, "BEAT_SECONDS", 0.5)
    with operated(tmp_path / "study") as (study, gate, served):
        none = call("wave", "pause", "0", study=study)
        assert none.exit_code == 2
        assert "no sweep of wave 0 is at work" in none.output
        sweep = Swept(study, place)
        until(lambda: len(served.requests) == 4)
        other = as_on_another_host(study, tmp_path / "other")
        there = replace(Process.current(), boot="another boot")
        with monkeypatch.context() as patched:
            patched.setattr(Process, "current", lambda: there)
            patched.setattr(epochs, "_boot", lambda: "another boot")
            with pytest.raises(SweptElsewhere):
                pipeline.sweep(other, replace(REQUEST, address=place), lambda progress: None)
        assert call("wave", "pause", "0", study=other).exit_code == 0
        until(lambda: sweep.seen[-1].asked == "pause")
        gate.open.set()
        until(lambda: sweep.seen[-1].finished == 4)
        assert sweep.seen[-1].leased == 0, "what was at work ended, and nothing was begun"
        assert call("wave", "resume", "0", study=other).exit_code == 0
        until(lambda: len(served.requests) > 4)
        stopped = call("wave", "stop", "0", study=other)
        assert "buys nothing more" in stopped.output
        last = sweep.end().progress
        assert last.asked == "stop" or last.done
        assert len(list(study.store.list(RESULTS))) == len(served.requests), "each reply is kept"
        assert Swept(study, place).end().closed.finished == CELLS
    assert len(served.requests) == CELLS, "none is bought twice"


def as_on_another_host(study: Study, folder: Path) -> Study:
    """The same study, with its store, as another host has it."""
    folder.mkdir()
    for name in ("study.yaml", "keys"):
        place = study.folder / name
        if place.is_dir():
            shutil.copytree(place, folder / name)
        else:
            shutil.copy(place, folder / name)
    (folder / "store").symlink_to(study.folder / "store")
    return pipeline.open_study(folder)


def test_a_begun_wave_takes_what_changes_no_answer(tmp_path: Path) -> None:
    two = STUDY.replace("[[slow]]", "[[slow], [slow]]")
    with operated(tmp_path / "study", two) as (study, gate, served):
        gate.open.set()
        begun, _ = (
            begin_wave(study, replace(REQUEST, wave=n), NO_IMAGE, utc_now) for n in range(2)
        )
        file = study.folder / "study.yaml"
        text = file.read_text()
        file.write_text(text.replace("context: 100000", "context: 90000"))
        changed = pipeline.open_study(study.folder)
        refused = call("sweep", "--wave", "0", "--estimate", study=changed)
        assert refused.exit_code == 3
        assert (
            "study.yaml:4: models.slow.context: here is 90000, and wave 0 was begun with 100000: "
            "restore it, or plan another wave"
        ) in refused.output
        shown = call("status", "--json", study=changed)
        assert "changed since it was begun: models.slow.context" in shown.output
        linted = call("lint", study=study)
        assert linted.output.count("models.slow.context: here is 90000") == 2
        gone = drift(replace(study.protocol, waves=study.protocol.waves[:1]), study.ledger)
        assert "wave 1 was begun and is not here: restore it" in [problem for _, problem in gone]
        file.write_text(text.replace("context: 100000", "context: 100000, seconds: 17, retries: 1"))
        mended = pipeline.open_study(study.folder)
        assert pipeline.sweep(mended, REQUEST, lambda progress: None).closed is not None
    first, last = manifests_of(study.ledger, 0)
    assert first == begun
    assert dict(last.models[0].settings)["seconds"] == "17.0"
    assert verify_study(study.store, study.identities()).holds
    assert len(served.requests) == CELLS

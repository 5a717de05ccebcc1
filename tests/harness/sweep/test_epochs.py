"""Which of several drivers may buy: the one with the highest epoch, while its store answers."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SweptElsewhere
from harness.sweep import epochs as module
from harness.sweep.epochs import Epochs, HeartbeatSender, Process, WorkerClaims
from harness.sweep.leases import Progress, SweepOrder
from registry.errors import StoreUnavailable
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from registry.stores.folder import FolderStore
from tests.progress import wait_until

IDENTITY, RECIPIENT = new_identity()
PROGRESS = Progress(owed=3, finished=1, leased=1, waiting=1, exhausted=0, failures=())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "TAKEOVER_SECONDS", 0.5)


class FlakyStore(MemoryStore):
    """A store that refuses writes while it is ``away``."""

    away = False

    def replace(self, key: str, data: bytes) -> None:
        if self.away:
            raise StoreUnavailable("here", "the store is away")
        super().replace(key, data)


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore()


@pytest.fixture
def epochs(store: FlakyStore) -> Epochs:
    return Epochs(store, RECIPIENT, (RECIPIENT,), (IDENTITY,))


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, this process is one of another host."""
    monkeypatch.setattr(module, "_boot", lambda: "another boot")


def test_an_epoch_that_has_ended_is_followed_at_once(
    epochs: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert epochs.latest() == 0
    first = HeartbeatSender(epochs, epochs.open(), lambda: PROGRESS)
    assert first.alive
    first.close("why it ended")
    elsewhere(monkeypatch)
    assert epochs.open(pytest.fail) == epochs.latest() == 2
    told = epochs.heartbeat(1)
    assert told is not None
    assert (told.ended, told.failure, told.progress) == (True, "why it ended", PROGRESS)


def test_a_driver_that_was_killed_here_is_followed_at_once(
    epochs: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = replace(Process.current(), start=1)  # its number was given to another since
    with monkeypatch.context() as patched:
        patched.setattr(Process, "current", lambda: dead)
        assert epochs.open() == 1
    assert epochs.driver(1).has_ended
    assert epochs.open(pytest.fail) == 2


def test_a_driver_elsewhere_that_is_at_work_is_left_alone(
    epochs: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKEOVER_SECONDS", 60.0)
    heartbeat = HeartbeatSender(epochs, epochs.open(), lambda: None)
    elsewhere(monkeypatch)
    watched: list[str] = []
    with pytest.raises(SweptElsewhere, match="dosimeter wave stop"):
        epochs.open(watched.append)
    assert watched
    assert epochs.latest() == 1
    heartbeat.close()


def test_a_silent_driver_is_followed_and_fenced_when_it_is_back(
    epochs: Epochs, store: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FENCE_SECONDS", 0.2)
    heartbeat = HeartbeatSender(epochs, epochs.open(), lambda: None)
    elsewhere(monkeypatch)
    store.away = True  # for the first, which cannot tell a lost store from a lost network
    wait_until(lambda: not heartbeat.alive)
    assert not heartbeat.fenced
    store.away = False
    monkeypatch.setattr(heartbeat, "_beat", lambda: None)  # still silent, for whatever reason
    assert epochs.open() == 2
    monkeypatch.undo()
    wait_until(lambda: heartbeat.fenced)
    assert heartbeat.asked is SweepOrder.STOP
    assert not heartbeat.alive


def test_of_drivers_that_open_at_once_one_has_the_epoch(tmp_path: Path) -> None:
    made = Epochs(FolderStore(tmp_path), RECIPIENT, (RECIPIENT,), (IDENTITY,))
    heartbeats: list[HeartbeatSender] = []
    refused: list[SweptElsewhere] = []
    barrier = threading.Barrier(4)

    def drive() -> None:
        barrier.wait()
        try:
            heartbeats.append(HeartbeatSender(made, made.open(), lambda: None))
        except SweptElsewhere as error:
            refused.append(error)

    threads = [threading.Thread(target=drive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(heartbeats), len(refused), made.latest()) == (1, 3, 1)
    heartbeats[0].close()


def test_an_operator_is_heard_with_the_next_heartbeat(epochs: Epochs, store: FlakyStore) -> None:
    heartbeat = HeartbeatSender(epochs, epochs.open(), lambda: None)
    assert heartbeat.asked is SweepOrder.GO
    for asked in (SweepOrder.PAUSE, SweepOrder.GO, SweepOrder.STOP):
        epochs.ask(1, asked)
        wait_until(lambda asked=asked: heartbeat.asked is asked)
    store.replace(next(key for key in store.list() if "asked" in key), b'{"asked":"explode"}')
    assert epochs.asked(1) is SweepOrder.GO
    heartbeat.close()


def test_either_the_worker_sees_the_next_epoch_or_its_driver_the_claim(epochs: Epochs) -> None:
    epoch = epochs.open()
    first, second = f"{epoch:06d}-1", f"{epoch:06d}-2"
    worker = WorkerClaims(epochs, first, lambda: False)
    assert worker.take(["e0", "e1"])
    assert epochs.open() == 2
    assert epochs.claims()[first].episodes == ("e0", "e1")
    assert not worker.take(["e0", "e1", "e2"])
    worker.drop()
    assert (epochs.claims(), epochs.claim(first), epochs.claim(second)) == ({}, None, None)


def test_a_claim_is_put_when_the_store_is_back_unless_the_worker_was_stopped(
    epochs: Epochs, store: FlakyStore
) -> None:
    worker = f"{epochs.open():06d}-1"
    stopped = threading.Event()
    claims = WorkerClaims(epochs, worker, stopped.is_set)
    store.away = True
    threading.Timer(0.1, lambda: setattr(store, "away", False)).start()
    assert claims.take(["e0"])
    store.away = True
    threading.Timer(0.1, stopped.set).start()
    assert not claims.take(["e0", "e1"])
    store.away = False
    assert epochs.claims()[worker].episodes == ("e0",)

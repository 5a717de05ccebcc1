"""The hand of a worker: what it does when nobody is at the other end of its line any more."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from harness.episode import Cell, Mode
from harness.errors import HarnessError, WorkerDrained, WorkerKilled
from harness.model import Reply
from harness.spending.purchases import PAID_CALL_CODEC
from harness.storage import ATTEMPTS, EPISODE_CODEC, RESPONSES, RESULTS, is_reply, result_key
from harness.sweep.epochs import WorkerClaims
from harness.sweep.governor import LeaseOutcome
from harness.sweep.outbox import OUTBOX, StorePause
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.workbench import RunContext
from harness.sweep.worker_process import LeaseClient, Renewal, open_worker_process, pull
from registry.ledger.records import ModelPin
from registry.provenance import code_digest
from registry.sealing import new_identity
from registry.stores.folder import FolderStore
from tests.faults import outbox_files, remount
from tests.harness import paid_cells
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.ledgers import keys_of
from tests.progress import wait_until

STUDY, RECIPIENT = new_identity()
RUN, _ = new_identity()
AT_ONCE = 2
NAME = "000000-1"
_workers = count(2)  # numbers of further ones
ANSWER = 'So it is.\n<answer>\n{"average": 1.0}\n</answer>'


@pytest.fixture(autouse=True)
def _own_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def in_one_turn(url: str) -> ModelPin:
    pin = paid_cells.pin_at(url)
    return replace(pin, settings=(*pin.settings, ("context", "100000")))


def context_of(url: str, folder: Path) -> RunContext:
    """Of a run with two cells at once."""
    made = paid_cells.bench(url, str(folder), RECIPIENT, RUN).context
    plan = replace(made.plan, models=(in_one_turn(url),))
    return replace(made, plan=plan, parallel=AT_ONCE, code=code_digest())


def cells_of(url: str, count: int) -> tuple[Cell, ...]:
    once = Mode.SINGLE_TURN
    return tuple(replace(cell, mode=once) for cell in paid_cells.cells(url, count))


def answer_lease(link: Connection, cells: tuple[Cell, ...], over: bool) -> None:
    while True:
        kind, *_ = link.recv()
        if kind == "lease":
            return link.send((cells, over))
        assert kind == "hear"
        link.send((Renewal.RENEWED, None))


def kept(folder: Path) -> list[Reply]:
    """The paid replies in the store: in attempts, and those of attempts that are not stored."""
    store, keys = FolderStore(folder), keys_of(STUDY, RUN)
    attempts = [EPISODE_CODEC.read(store, key, keys) for key in store.list(ATTEMPTS)]
    folded = [reply for attempt in attempts for reply in attempt.paid_replies().values()]
    names = filter(is_reply, store.list(RESPONSES))
    return folded + [call.reply for call in PAID_CALL_CODEC.read_each(store, names, keys)]


def test_replies_on_their_way_are_kept_when_the_line_breaks(tmp_path: Path) -> None:
    hung_up = threading.Event()

    def when_nobody_is_there(request: Json) -> Answer:
        assert hung_up.wait(120)
        return completion(ANSWER)

    with serve(always=when_nobody_is_there) as served:
        cells = cells_of(served.url, AT_ONCE)
        epochs = replace(context_of(served.url, tmp_path / "store").epochs, identities=(STUDY,))
        with open_worker_process(context_of(served.url, tmp_path / "store"), NAME) as link:
            answer_lease(link, cells, over=False)
            wait_until(lambda: len(served.requests) == AT_ONCE)
            assert kept(tmp_path / "store") == []
            claim = epochs.claim(NAME)
            assert claim is not None
            assert set(claim.episodes) == {cell.episode for cell in cells}
        hung_up.set()
        wait_until(lambda: len(kept(tmp_path / "store")) == AT_ONCE)
        # Who goes on waits until the claim is dropped, and finds the results.
        wait_until(lambda: epochs.claim(NAME) is None)
        for cell in cells:
            assert FolderStore(tmp_path / "store").exists(result_key(cell.episode))
        assert len(served.requests) == AT_ONCE


@pytest.mark.slow
def test_a_claim_stands_while_nobody_answers_and_replies_are_on_their_way(tmp_path: Path) -> None:
    """As on a host that is cut off, whose actor waits for the coordinator's answer."""
    cut_off = threading.Event()

    def late(request: Json) -> Answer:
        assert cut_off.wait(200)
        return completion(ANSWER)

    with serve(always=late) as served:
        cells = cells_of(served.url, AT_ONCE)
        epochs = replace(context_of(served.url, tmp_path / "store").epochs, identities=(STUDY,))

        def renewals() -> int:
            claim = epochs.claim(NAME)
            return 0 if claim is None else claim.number

        with open_worker_process(context_of(served.url, tmp_path / "store"), NAME) as link:
            answer_lease(link, cells, over=False)
            wait_until(lambda: len(served.requests) == AT_ONCE)
            wait_until(link.poll)  # it asks, and waits for an answer from here on
            before = renewals()
            wait_until(lambda: renewals() >= before + 2)
            cut_off.set()
            wait_until(lambda: len(kept(tmp_path / "store")) == AT_ONCE)
            wait_until(lambda: epochs.claim(NAME) is None)


def test_a_run_is_pulled_to_its_end(tmp_path: Path) -> None:
    with serve(always=lambda request: completion(ANSWER)) as served:
        done = pull_all(served, tmp_path / "store", cells_of(served.url, 3))
    assert done == ("finished", 3)
    assert len(served.requests) == len(kept(tmp_path / "store")) == 3


def pull_all(
    served: Served,
    folder: Path,
    cells: tuple[Cell, ...],
    pauses: list[StorePause | None] | None = None,
) -> tuple[str, int]:
    """As a coordinator answers: cells while there are any, then that it is over."""
    left, reported = list(cells), 0
    with open_worker_process(context_of(served.url, folder), f"000000-{next(_workers)}") as link:
        while True:
            kind, *told = link.recv()
            if kind == "lease":
                given = tuple(left[: told[0]])
                del left[: told[0]]
                link.send((given, not given and reported == len(cells)))
            elif kind == "report":
                reported += len(told[0])
                link.send(None)
            elif kind == "hear":
                if pauses is not None:
                    pauses.append(told[1])
                link.send((Renewal.RENEWED, None))
            else:
                return kind, told[0]


class Listing(FolderStore):
    """A store that knows the order in which objects were put."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.keys: list[str] = []

    def put(self, key: str, data: bytes) -> bool:
        self.keys.append(key)
        return super().put(key, data)


class OneLease(LeaseClient):
    """A coordinator that has one lease."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self.left, self.reported = cells, list[str]()

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        given, self.left = self.left[:capacity], self.left[capacity:]
        return given, not given and not holding

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None:
        self.reported += [outcome.episode for outcome in outcomes]

    def hear(
        self, holding: frozenset[str], pause: StorePause | None, calls: Mapping[str, CallCounts]
    ) -> tuple[Renewal, Mapping[str, CallLimit] | None]:
        return Renewal.RENEWED, None

    def attend(self) -> None:
        pass


def test_results_of_a_lease_are_stored_together_and_shuffled(tmp_path: Path) -> None:
    with serve(always=lambda request: completion(ANSWER)) as served:
        cells, store = cells_of(served.url, 12), Listing(tmp_path / "store")
        context = context_of(served.url, tmp_path / "store")
        bench = replace(
            paid_cells.bench(served.url, str(tmp_path / "store"), RECIPIENT, RUN),
            context=context,
            store=store,
            held={},
        )
        claims = WorkerClaims(context.epochs, f"{context.epochs.open():06d}-1", lambda: False)
        leases = OneLease(cells)
        shuffled: list[list[str]] = []

        def reverse_names(outcomes: list[LeaseOutcome]) -> None:
            outcomes.sort(key=lambda outcome: outcome.episode, reverse=True)
            shuffled.append([outcome.episode for outcome in outcomes])

        assert pull(leases, bench, 12, claims, reverse_names) == 12
        assert pull(OneLease(cells), bench, 12, claims, lambda outcomes: None) == 12, (
            "they are stored already"
        )
        assert len(served.requests) == 12
    written = [key for key in store.keys if key.startswith((ATTEMPTS, RESULTS))]
    assert [key.startswith(RESULTS) for key in written] == [False] * 12 + [True] * 12
    (order,) = (names for names in shuffled if names)
    assert written[12:] == [result_key(name) for name in order]
    assert leases.reported == order, "only what is stored is finished"


def test_a_grade_that_is_held_is_made_again_without_buying(tmp_path: Path) -> None:
    done = threading.Event()

    def first_only(request: Json) -> Answer:
        if len(served.requests) > 1:
            assert done.wait(120)
        return completion(ANSWER)

    store = FolderStore(tmp_path / "store")
    with serve(always=first_only) as served:
        cells = cells_of(served.url, AT_ONCE)
        with open_worker_process(context_of(served.url, tmp_path / "store"), NAME) as link:
            answer_lease(link, cells, over=False)
            wait_until(
                lambda: len(served.requests) == AT_ONCE and len(list(store.list(ATTEMPTS))) == 1
            )
            for pid in worker_processes(tmp_path):
                os.kill(pid, signal.SIGKILL)
        assert list(store.list(RESULTS)) == [], "the grade waited for the other one of its lease"
        done.set()
        assert pull_all(served, tmp_path / "store", cells) == ("finished", AT_ONCE)
        assert len(served.requests) == AT_ONCE + 1, "the one on its way was bought again"
    assert len(list(store.list(RESULTS))) == AT_ONCE


def worker_processes(tmpdir: Path) -> list[int]:
    """The worker processes of a test, by their folder for temporary files."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={tmpdir}\0".encode() in (process / "environ").read_bytes():
                pids.append(int(process.name))
    return pids


_PR_SET_CHILD_SUBREAPER = 36  # of Linux: orphans below become children


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_process_and_its_outbox(
    tmp_path: Path, small_disk: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three owed cells, two are leased, and the store goes read-only before their replies."""
    (folder := tmp_path / "outbox").mkdir()
    monkeypatch.setenv(OUTBOX, str(folder))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    away, pauses = threading.Event(), list[StorePause | None]()

    def late(request: Json) -> Answer:
        assert away.wait(120)
        return completion(ANSWER)

    with serve(always=late) as served, ThreadPoolExecutor(1) as pool:
        store, cells = small_disk / "store", cells_of(served.url, AT_ONCE + 1)
        first = pool.submit(pull_all, served, store, cells, pauses)
        wait_until(lambda: len(served.requests) == AT_ONCE)
        (pid,) = worker_processes(tmp_path)
        remount(small_disk, "ro")
        os.kill(pid, number)
        away.set()
        wait_until(lambda: any(pauses))
        assert not first.done(), "it waits for the store"
        assert len(outbox_files(folder)) == AT_ONCE
        remount(small_disk, "rw")
        kind, error = first.result()
        assert (kind, type(error)) == ("raised", WorkerDrained)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(kept(store)) == AT_ONCE
        assert outbox_files(folder) == []
        assert pull_all(served, store, cells) == ("finished", AT_ONCE + 1)
        assert len(served.requests) == AT_ONCE + 1, "none is bought twice"


def test_while_the_store_is_away_nothing_is_bought_and_no_reply_is_lost(
    tmp_path: Path, small_disk: Path
) -> None:
    """It goes read-only while two replies are on their way; a third cell is owed. The process that
    has them is killed, and the next one goes on."""
    away = threading.Event()

    def late(request: Json) -> Answer:
        assert away.wait(120)
        return completion(ANSWER)

    pauses: list[StorePause | None] = []
    with serve(always=late) as served, ThreadPoolExecutor(2) as pool:
        cells = cells_of(served.url, AT_ONCE + 1)
        first = pool.submit(pull_all, served, small_disk / "store", cells, pauses)
        wait_until(lambda: len(served.requests) == AT_ONCE)
        FolderStore(small_disk / "store").put("full", b"")
        remount(small_disk, "ro")
        away.set()
        wait_until(lambda: any(pauses))
        assert len(outbox_files(tmp_path)) == AT_ONCE
        pause = next(filter(None, pauses))
        assert (pause.objects, "read-only" in pause.reason) == (AT_ONCE, True)
        for pid in worker_processes(tmp_path):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerKilled, match="died"):
            first.result()
        pauses.clear()
        second = pool.submit(pull_all, served, small_disk / "store", cells, pauses)
        try:
            wait_until(lambda: any(pauses))
            assert len(served.requests) == AT_ONCE, "nothing was bought meanwhile"
        finally:
            remount(small_disk, "rw")
        assert second.result() == ("finished", AT_ONCE + 1)
        assert pauses[-1] is None
        assert len(served.requests) == AT_ONCE + 1
    assert outbox_files(tmp_path) == []
    assert len(kept(small_disk / "store")) == AT_ONCE + 1


def test_what_a_hand_cannot_work_with_is_raised_at_the_other_end(tmp_path: Path) -> None:
    with serve() as served:
        other = replace(context_of(served.url, tmp_path / "store"), code="another")
        with open_worker_process(other, NAME) as link:
            kind, error = link.recv()
    assert kind == "raised"
    assert "other code than the driver" in str(error)


def test_requests_wait_for_the_limits_that_heartbeats_bring(tmp_path: Path) -> None:
    limits, heard, counts, over = {paid_cells.NAME: CallLimit(0.0)}, 0, CallCounts(), False
    with serve(always=lambda request: completion(ANSWER)) as served:
        cells = cells_of(served.url, 1)
        with open_worker_process(context_of(served.url, tmp_path / "store"), NAME) as link:
            while True:
                kind, *told = link.recv()
                if kind == "lease":
                    link.send((cells, False) if heard == 1 else ((), over))
                    cells = ()
                elif kind == "report":
                    assert all(outcome.finished for outcome in told[0])
                    over = True
                    link.send(None)
                elif kind == "hear":
                    heard, counts = heard + 1, counts + told[2].get(paid_cells.NAME, CallCounts())
                    if limits and counts.waited:  # the call waits for its turn
                        assert served.requests == []
                        limits = {}
                    link.send((Renewal.RENEWED, limits))
                else:
                    assert (kind, *told) == ("finished", 1)
                    break
        assert len(served.requests) == 1
    assert counts.waited > 0


def test_the_process_understands_what_its_heartbeat_is_answered(tmp_path: Path) -> None:
    with (
        serve() as served,
        open_worker_process(context_of(served.url, tmp_path / "store"), NAME) as link,
    ):
        assert link.recv()[0] == "hear"
        link.send((Renewal.STOP, None))
        assert link.recv() == ("finished", 0), "it asks for no lease"


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        ("kill -9 $$", WorkerKilled, "was killed at its start"),
        ("exit 3", HarnessError, "exits with 3"),
    ],
)
def test_a_process_that_does_not_start_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, error: type[HarnessError], text: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{end}\n")
    python.chmod(0o755)
    context = context_of("http://127.0.0.1:9", tmp_path / "store")
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(error, match=text), open_worker_process(context, NAME):
        raise AssertionError("it did not start")

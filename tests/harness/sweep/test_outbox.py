"""A worker's store that goes away: objects wait, nothing is read meanwhile, and none is lost."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from harness.errors import HarnessError, WorkStopped
from harness.sweep import outbox as outbox_module
from harness.sweep.outbox import OutboxStore
from registry.errors import MissingKey, StoreError
from registry.stores import open_store, s3
from registry.stores.base import Store
from registry.stores.folder import FolderStore
from tests.conftest import S3Server
from tests.faults import Fault, FaultProxy, fault_proxy, outbox_files, remount
from tests.progress import wait_until

_prefixes = (f"outbox-{number}" for number in count())


STOP = threading.Event()  # of every store below


def opened(below: Store, folder: Path) -> OutboxStore:
    STOP.clear()
    return OutboxStore(below, STOP.is_set, str(folder))


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that end when the test fails."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            STOP.set()
            raise


def test_on_a_read_only_disk_objects_wait_and_new_reads_too(
    tmp_path: Path, small_disk: Path
) -> None:
    store = opened(FolderStore(small_disk), tmp_path)
    assert store.put("a/there", b"1")
    remount(small_disk, "ro")
    with threads(9) as pool:
        puts = [pool.submit(store.put, f"a/{number}", b"%d" % number) for number in range(8)]
        wait_until(lambda: len(outbox_files(tmp_path)) == 8)
        read = pool.submit(store.exists, "a/there")
        wait_until(lambda: store.pause() is not None)
        pause = store.pause()
        assert pause is not None
        assert (pause.objects, "read-only" in pause.reason) == (8, True)
        assert not read.done(), "a reply is paid for only after a read: none while objects wait"
        remount(small_disk, "rw")
        assert [put.result() for put in puts] == [True] * 8
        assert read.result()
    assert [store.get(f"a/{number}") for number in range(8)] == [b"%d" % n for n in range(8)]
    assert outbox_files(tmp_path) == []
    assert store.pause() is None


def test_an_object_that_fits_no_full_disk_is_stored_when_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    store = opened(FolderStore(small_disk), tmp_path)
    (small_disk / "large").write_bytes(b"x" * 200_000)
    with threads(1) as pool:
        put = pool.submit(store.put, "a", b"x" * 100_000)
        wait_until(lambda: len(outbox_files(tmp_path)) == 1)
        (small_disk / "large").unlink()
        assert put.result()
    assert (store.get("a"), outbox_files(tmp_path)) == (b"x" * 100_000, [])


def test_what_the_outbox_cannot_take_waits_in_memory(
    tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The outbox lies on the full disk itself."""
    store = opened(FolderStore(small_disk), small_disk)
    (small_disk / "large").write_bytes(b"x" * 200_000)
    with threads(1) as pool:
        put = pool.submit(store.put, "a", b"x" * 100_000)
        wait_until(lambda: "objects wait in memory" in caplog.text)
        assert outbox_files(small_disk) == []
        (small_disk / "large").unlink()
        assert put.result()
    assert store.get("a") == b"x" * 100_000


def _put_for_ever(disk: str, folder: str, link: Connection) -> None:
    store = OutboxStore(FolderStore(disk), lambda: False, folder)
    threading.Thread(target=store.put, args=("a/b", b"paid for")).start()
    wait_until(lambda: len(outbox_files(Path(folder))) == 1)
    link.send("in the outbox")
    time.sleep(1000)


def test_the_next_process_stores_what_a_killed_one_had_in_its_outbox(
    tmp_path: Path, small_disk: Path
) -> None:
    (small_disk / "a").mkdir()
    remount(small_disk, "ro")
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    holder = spawn.Process(target=_put_for_ever, args=(str(small_disk), str(tmp_path), theirs))
    holder.start()
    assert ours.recv() == "in the outbox"
    store, other = (
        opened(FolderStore(small_disk), tmp_path),
        opened(FolderStore(tmp_path), tmp_path),
    )
    other.recover()  # the outbox of another store
    with threads(2) as pool:
        recovered = [pool.submit(store.recover) for _ in range(2)]
        time.sleep(0.5)
        assert not any(each.done() for each in recovered), "the store is away"
        holder.kill()
        holder.join()
        remount(small_disk, "rw")
        for each in recovered:
            each.result()
    assert store.get("a/b") == b"paid for"
    assert outbox_files(tmp_path) == []


def test_a_stopped_process_leaves_its_objects_in_the_outbox(
    tmp_path: Path, small_disk: Path
) -> None:
    (small_disk / "a").mkdir()
    remount(small_disk, "ro")
    store = opened(FolderStore(small_disk), tmp_path)
    with threads(1) as pool:
        put = pool.submit(store.put, "a/b", b"1")
        wait_until(lambda: len(outbox_files(tmp_path)) == 1)
        STOP.set()
        with pytest.raises(WorkStopped):
            put.result()
    assert len(outbox_files(tmp_path)) == 1
    assert outbox_files(tmp_path)[0].parent.stat().st_mode & 0o077 == 0


def test_an_error_that_waiting_does_not_end_is_raised(tmp_path: Path) -> None:
    """With the object in the outbox: it was paid for."""
    store = opened(FolderStore(tmp_path / "store"), tmp_path)
    store.put("a/b", b"1")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        store.put("a/b/c", b"paid for")
    assert len(outbox_files(tmp_path)) == 1
    with pytest.raises(MissingKey):
        store.get("nothing")
    with pytest.raises(StoreError, match="is not a store key"):
        store.put("../a", b"")


def test_a_damaged_or_foreign_outbox_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    below = FolderStore(tmp_path / "store")
    store = opened(below, tmp_path)
    path = store._outbox.path / store._outbox.save("a/b", b"paid for")
    path.write_bytes(path.read_bytes()[:-1])
    store.recover()
    assert "a damaged object" in caplog.text
    assert (outbox_files(tmp_path), list(below.list())) == ([], [])
    path.parent.chmod(0o755)
    with pytest.raises(HarnessError, match="must be your own folder"):
        opened(below, tmp_path)


# --- S3 ---


@pytest.fixture
def proxied(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, FaultProxy]]:
    """A store behind a proxy. Its client leaves trying again to the outbox, but once."""
    monkeypatch.setattr(s3, "_TRIES", 2)
    with fault_proxy(moto.endpoint) as proxy:
        uri = f"s3://{moto.bucket}/{next(_prefixes)}?endpoint={proxy.url}&region=us-east-1"
        yield open_store(uri), proxy


@pytest.mark.s3
@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Fault.ERROR, "answers with an error (503)"), (Fault.GONE, "cannot be reached")],
)
def test_objects_wait_until_s3_is_back(
    tmp_path: Path, proxied: tuple[Store, FaultProxy], fault: Fault, reason: str
) -> None:
    below, proxy = proxied
    store = opened(below, tmp_path)
    assert store.put("a", b"1")
    proxy.begin(fault, status=503)
    with threads(2) as pool:
        put, read = pool.submit(store.put, "b", b"2"), pool.submit(store.get, "a")
        wait_until(lambda: (pause := store.pause()) is not None and reason in pause.reason)
        wait_until(lambda: len(outbox_files(tmp_path)) == 1)
        proxy.end()
        assert put.result()
        assert read.result() == b"1"
    assert (store.get("b"), outbox_files(tmp_path)) == (b"2", [])


@pytest.mark.s3
def test_a_writer_knows_its_object_though_every_answer_was_lost(
    tmp_path: Path, proxied: tuple[Store, FaultProxy]
) -> None:
    below, proxy = proxied
    store = opened(below, tmp_path)
    proxy.begin(Fault.CUT, count=5)
    with threads(1) as pool:
        put = pool.submit(store.put, "a", b"1")
        wait_until(lambda: len(outbox_files(tmp_path)) == 1)
        proxy.end()
        assert put.result(), "it arrived at the first try"
    assert not store.put("a", b"2")
    assert proxy.refused >= 2


@pytest.mark.s3
def test_an_object_is_in_the_outbox_while_s3_keeps_silent(
    tmp_path: Path, proxied: tuple[Store, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "_OUTBOX_SECONDS", 0.1)
    monkeypatch.setattr(outbox_module, "_SILENT_SECONDS", 0.2)
    below, proxy = proxied
    store = opened(below, tmp_path)
    proxy.begin(Fault.HANG)
    with threads(1) as pool:
        put = pool.submit(store.put, "a", b"1")
        wait_until(lambda: (pause := store.pause()) is not None and "no answer" in pause.reason)
        assert len(outbox_files(tmp_path)) == 1
        proxy.end()
        assert put.result()
    assert outbox_files(tmp_path) == []

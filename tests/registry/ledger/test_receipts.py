"""Receipts save reading and decide nothing: the inventory is the same whatever receipts there are,
in whatever order, and also if some are foreign or damaged."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import registry.ledger.receipts as receipts_module
from registry.canonical import digest_bytes
from registry.errors import StoreError
from registry.ledger.inventory import Inventory, write_inventory
from registry.ledger.receipts import (
    RUN_FOLDERS,
    ReceiptFolder,
    RecordingStore,
    episode_stem,
    read_receipts,
)
from registry.stores.base import MemoryStore

RUN_KEY = f"runs/{'ab' * 32}/key.age"
RECEIPTS = ReceiptFolder.of(RUN_KEY, "the run's identity")
FOREIGN = ReceiptFolder.of(RUN_KEY, "another identity")
EPISODES = [hashlib.sha256(b"episode %d" % number).hexdigest() for number in range(40)]
OBJECTS = {
    key: key.encode() * 3
    for episode in EPISODES
    for key in (
        f"{episode_stem('attempts/', episode)}-0001.age",
        f"{episode_stem('responses/', episode)}.0001-0000.age",
        f"{episode_stem('responses/', episode)}.0001-0001.age",
        f"{episode_stem('results/', episode)}.age",
    )
}


class CountingStore(MemoryStore):
    """Counts the objects of a run that are read."""

    def __init__(self, uri: str = "memory:") -> None:
        super().__init__()
        self._uri, self.read = uri, list[str]()

    @property
    def uri(self) -> str:
        return self._uri

    def get(self, key: str) -> bytes:
        if key.startswith(RUN_FOLDERS):
            self.read.append(key)
        return super().get(key)


def inventory_of(store: CountingStore) -> Inventory:
    """The inventory that closing writes; counts what it reads."""
    store.read.clear()
    keys = [key for folder in RUN_FOLDERS for key in store.list(folder)]
    with read_receipts(store, RECEIPTS, lambda done, of: None) as receipts:
        return write_inventory(store, keys, receipts.digest)


def expected() -> Inventory:
    """The inventory by reading every object."""
    store = MemoryStore()
    for key, data in OBJECTS.items():
        store.put(key, data)
    return write_inventory(store, sorted(OBJECTS))


def filled(*shares: Sequence[str], uri: str = "memory:") -> CountingStore:
    """A store with all objects, of which each share was put by a recording writer."""
    store = CountingStore(uri)
    for share in shares:
        writer = RecordingStore(store, RECEIPTS)
        for key in share:
            assert writer.put(key, OBJECTS[key])
        writer.flush()
    for key, data in OBJECTS.items():
        store.put(key, data)
    return store


@pytest.mark.parametrize("uri", ["memory:", "s3://bucket"])
@pytest.mark.parametrize("seed", range(6))
def test_the_roots_are_equal_whatever_receipts_there_are(
    seed: int, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(receipts_module, "_LINES", chance.choice((1, 7, 2048)))
    monkeypatch.setattr(receipts_module, "_IN_MEMORY", chance.choice((1, 50, 1 << 18)))
    monkeypatch.setattr("registry.ledger.inventory._LINES", chance.choice((3, 4096)))
    keys = chance.sample(sorted(OBJECTS), len(OBJECTS))
    covered = keys[: chance.choice((0, 90, len(keys)))]
    writers = chance.choice((1, 5))
    store = filled(*(covered[start::writers] for start in range(writers)), uri=uri)
    assert inventory_of(store) == expected()
    assert sorted(store.read) == sorted(set(keys) - set(covered))


def test_objects_put_by_many_threads_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_module, "_LINES", 7)
    store = CountingStore()
    writer = RecordingStore(store, RECEIPTS)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(writer.put, OBJECTS, OBJECTS.values()))
    writer.flush()
    assert inventory_of(store) == expected()
    assert store.read == []


def test_a_foreign_receipt_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines are well formed, and its digests are wrong."""
    store = CountingStore()
    lies = "".join(f"{'0' * 64}  {key}\n" for key in sorted(OBJECTS))
    store.put(f"{RECEIPTS.folder}{'0' * 64}.txt", FOREIGN.seal(lies))
    for key, data in OBJECTS.items():
        store.put(key, data)
    assert inventory_of(store) == expected()
    assert len(store.read) == len(OBJECTS)
    assert "1 of 1 receipts are not of this run's workers" in caplog.text


def test_a_damaged_receipt_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    whole = filled(sorted(OBJECTS))
    (name,) = whole.list(RECEIPTS.folder)
    data = whole.get(name)
    for damaged in (
        b"",
        data[:-1],
        data[: len(data) // 2],
        data.replace(b"0", b"1", 1),
        data.replace(b"results/", b"\xffesults/", 1),
        b"x" + data,
        data + b"\n",
        data[data.index(b"\n") + 1 :],
    ):
        caplog.clear()
        store = filled()
        store.put(name, damaged)
        assert inventory_of(store) == expected()
        assert len(store.read) == len(OBJECTS)
        assert "were altered" in caplog.text


@pytest.mark.parametrize("key", ["../../etc/passwd", "runs/x", "results/..", f"ledger/{'0' * 64}"])
def test_a_receipt_lists_objects_of_episodes_only(key: str) -> None:
    assert RECEIPTS.open(RECEIPTS.seal(f"{'0' * 64}  {key}\n")) is None
    line = f"{'0' * 64}  results/00/{'0' * 64}.age\n"
    assert RECEIPTS.open(RECEIPTS.seal(line)) == line


def test_an_object_that_two_receipts_give_different_digests_is_read() -> None:
    store = filled(sorted(OBJECTS))
    disputed = f"{episode_stem('results/', EPISODES[0])}.age"
    lie = RECEIPTS.seal(f"{'0' * 64}  {disputed}\n")
    store.put(f"{RECEIPTS.folder}{'f' * 64}.txt", lie)
    assert inventory_of(store) == expected()
    assert store.read == [disputed]


def test_what_a_receipt_lists_and_the_store_does_not_is_left_out() -> None:
    store = filled(sorted(OBJECTS))
    gone = episode_stem("results/", hashlib.sha256(b"gone").hexdigest())
    line = f"{'0' * 64}  {gone}.age\n"
    store.put(f"{RECEIPTS.folder}{'f' * 64}.txt", RECEIPTS.seal(line))
    assert inventory_of(store) == expected()


def test_an_object_of_another_writer_is_not_listed() -> None:
    """A put that comes second does not know the bytes that are stored."""
    store = filled()
    writer = RecordingStore(store, RECEIPTS)
    for key in OBJECTS:
        assert not writer.put(key, b"other bytes")
    writer.flush()
    assert list(store.list(RECEIPTS.folder)) == []
    assert inventory_of(store) == expected()


def test_a_receipt_that_cannot_be_stored_fails_no_put(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(CountingStore):
        def put(self, key: str, data: bytes) -> bool:
            if key.startswith("receipts/"):
                raise StoreError("the disk is full")
            return super().put(key, data)

    monkeypatch.setattr(receipts_module, "_LINES", 50)
    store = Refusing()
    writer = RecordingStore(store, RECEIPTS)
    for key, data in OBJECTS.items():
        assert writer.put(key, data)
    writer.flush()
    assert "a receipt of 50 objects could not be stored: the disk is full" in caplog.text
    assert inventory_of(store) == expected()


def test_a_receipt_shows_no_more_than_a_listing_and_digests() -> None:
    store = filled(sorted(OBJECTS))
    (name,) = store.list("receipts/")
    *lines, last = store.get(name).decode().splitlines()
    digests = {key: digest_bytes(data).removeprefix("sha256:") for key, data in OBJECTS.items()}
    assert lines == [f"{digests[key]}  {key}" for key in sorted(OBJECTS)]
    assert last.startswith("hmac-sha256 ")
    assert len(last) == len("hmac-sha256 ") + 64
    assert name == f"receipts/{'ab' * 32}/{hashlib.sha256(store.get(name)).hexdigest()}.txt"


def test_nothing_is_left_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(receipts_module, "_IN_MEMORY", 1)
    store = filled(sorted(OBJECTS))
    with read_receipts(store, RECEIPTS, lambda done, of: None) as book:
        assert any(tmp_path.rglob("results-*"))
        assert book.digest(f"{episode_stem('results/', EPISODES[0])}.age")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_stem_begins_the_keys_of_all_episodes_with_these_digits() -> None:
    """Whatever their number, digits list what they begin, and nothing else."""
    for folder in RUN_FOLDERS:
        keys = sorted(f"{episode_stem(folder, episode)}.age" for episode in EPISODES)
        assert [key.rpartition("/")[2].removesuffix(".age") for key in keys] == sorted(EPISODES)
        for count in (0, 1, 2, 3, 4, 5, 64):
            digits = EPISODES[0][:count]
            begun = [key for key in keys if key.rpartition("/")[2].startswith(digits)]
            assert [key for key in keys if key.startswith(episode_stem(folder, digits))] == begun

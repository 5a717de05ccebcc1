"""A command reads each object of a store once: requests are counted on the stored demo study."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from registry.ledger.chain import Ledger
from registry.stores.folder import FolderStore
from study.steps import pipeline
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

MOST_GETS_PER_OBJECT = 1.05
MOST_LISTS = 10


class CountingStore(FolderStore):
    """A store that counts the requests to it, by method and key."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.requests: dict[str, Counter[str]] = {
            method: Counter() for method in ("put", "get", "exists", "list")
        }

    def put(self, key: str, data: bytes) -> bool:
        self.requests["put"][key] += 1
        return super().put(key, data)

    def get(self, key: str) -> bytes:
        self.requests["get"][key] += 1
        return super().get(key)

    def exists(self, key: str) -> bool:
        self.requests["exists"][key] += 1
        return super().exists(key)

    def list(self, prefix: str = "") -> Iterator[str]:
        self.requests["list"][prefix] += 1
        return super().list(prefix)

    def ledger_reads(self) -> int:
        return self.requests["get"]["ledger/00000000.json"]

    def unsealings(self) -> int:
        return sum(
            count for key, count in self.requests["get"].items() if key.startswith("sealed/")
        )


Counted = tuple[Study, CountingStore]


@pytest.fixture(scope="module")
def reported(stored_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored demo study. Its last report is made again: its words may have changed since."""
    folder = tmp_path_factory.mktemp("reported") / "demo-study"
    shutil.copytree(stored_demo, folder, ignore=shutil.ignore_patterns("wave-2"))
    pipeline.report(pipeline.open_study(folder))
    return folder


@pytest.fixture
def counted(reported: Path, tmp_path: Path) -> Counted:
    """The study, opened on a store that counts."""
    study = pipeline.open_study(shutil.copytree(reported, tmp_path / "demo-study"))
    store = CountingStore(study.folder / "store")
    return replace(study, store=store, ledger=Ledger(store, study.signer)), store


def test_status_reads_the_ledger_once_and_nothing_else(counted: Counted) -> None:
    study, store = counted
    steps = pipeline.status(study)
    assert [step["state"] for step in steps] == ["done"] * 7
    assert store.ledger_reads() == 1
    assert all(key.startswith("ledger/") for key in store.requests["get"])
    assert sum(store.requests["list"].values()) == 1


def test_report_reads_each_object_once(counted: Counted) -> None:
    study, store = counted
    pipeline.report(study)
    gets = store.requests["get"]
    assert sum(gets.values()) <= MOST_GETS_PER_OBJECT * len(gets)
    assert store.ledger_reads() == 1
    assert store.unsealings() == 1
    assert sum(store.requests["list"].values()) <= MOST_LISTS
    assert not store.requests["exists"]
    assert not store.requests["put"], "the same look is in the ledger already"


def test_a_snapshot_is_of_one_moment(counted: Counted) -> None:
    study, _ = counted
    snapshot = take_snapshot(study)
    before = snapshot.ledger.entries()
    release = before[-1].record
    added = snapshot.ledger.append(release, "2026-11-22T18:00:00Z")
    assert snapshot.ledger.entries() == before
    assert take_snapshot(study).ledger.entries() == (*before, added)
    assert study.ledger.entries()[-1] == added


def test_a_snapshot_knows_cells_and_results_of_each_wave(counted: Counted) -> None:
    study, store = counted
    snapshot = take_snapshot(study)
    assert [wave.number for wave in snapshot.closed_waves] == [0, 1, 2]
    for wave in snapshot.waves.values():
        assert wave.closed is not None
        assert len(wave.cells) == len(wave.results) == wave.closed.owed
        assert {cell.episode for cell in wave.cells} == set(wave.results)
    assert max(store.requests["get"].values()) == 1

"""Closing a wave: each object is read once, and killed at any moment it goes on to the same
promise."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from harness.model import ModelRequest, Reply
from harness.storage import ATTEMPTS, RESULTS, hex_of, result_key
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.ledger.inventory import run_objects, write_inventory
from registry.ledger.records import WaveClosed
from registry.provenance import utc_now
from registry.stores.base import MemoryStore, Store
from registry.stores.folder import FolderStore
from registry.verify.verify import verify_study
from study.steps.sweep.sweep import SweepRequest, begin_wave, close_wave, context_of, find_finished
from study.workspace.address import open_study
from study.workspace.setup import pinned_image
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, manifest_of
from tests.harness.script import say
from tests.study.conftest import SINGLE, Lost, make_study

LOST = 3


class WatchedStore(FolderStore):
    """A store that lists what is read, and is killed at its ``last``-th put."""

    def __init__(self, path: Path, last: int | None = None) -> None:
        super().__init__(path)
        self.read, self._puts, self._last = list[str](), count(), last

    def put(self, key: str, data: bytes) -> bool:
        if next(self._puts) == self._last:
            raise KeyboardInterrupt
        return super().put(key, data)

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


class Mute(Lost):
    """A model that says nothing of use."""

    def respond(self, request: ModelRequest) -> Reply:
        return say("So it is.")


def tried_wave(folder: Path, model: Lost, tries: int) -> Study:
    """A wave in which a model plays the first episodes in place of the honest one."""
    study = make_study(folder, SINGLE)
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    bench = Workbench.open(context_of(study, manifest, image, 1))
    other = replace(bench, models={"honest": model})
    for number, cell in enumerate(take_snapshot(study).waves[0].cells):
        run_cell(cell, other if number < tries else bench, utc_now)
    bench.close()
    return study


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wave with 9 results, and 3 episodes that failed."""
    return tried_wave(tmp_path_factory.mktemp("tried") / "small", Lost(), LOST).folder


@pytest.fixture
def study(tried: Path, tmp_path: Path) -> Study:
    shutil.copytree(tried, tmp_path / "small")
    return open_study(tmp_path / "small")


def close(study: Study, store: Store | None = None) -> tuple[WaveClosed, list[tuple[str, int]]]:
    """Close the wave; return the record, and the steps shown with their numbers."""
    shown: list[tuple[str, int]] = []
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    context = context_of(study, manifest, pinned_image(study.protocol), 1)
    watched = study if store is None else replace(study, store=store)
    record = close_wave(
        watched,
        context,
        manifest,
        *find_finished(watched, manifest),
        utc_now,
        lambda what, done, of: shown.append((what, done)),
    )
    return record, shown


def check_closed(study: Study, closed: WaveClosed) -> None:
    """Check the one record of the wave by reading every object."""
    assert [entry.record for entry in study.ledger.find("wave-closed")] == [closed]
    assert (closed.owed, closed.finished, closed.missing) == (12, 9, LOST)
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    read = MemoryStore()
    names = {hex_of(cell.episode) for cell in take_snapshot(study).waves[0].cells}
    for key in run_objects(study.store, manifest, names.__contains__):
        read.put(key, study.store.get(key))
    found = write_inventory(read, read.list())
    assert (found.objects_root, found.results_root) == (closed.objects_root, closed.results_root)
    assert found.objects == closed.objects
    assert verify_study(study.store, study.identities()).problems == ()


def test_a_model_none_of_whose_answers_can_be_read_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    close(tried_wave(tmp_path / "mute", Mute(), 12))
    assert "honest: no answer could be read" in caplog.text


def test_each_object_is_read_once(study: Study) -> None:
    store = WatchedStore(study.folder / "store")
    before = set(store.list(RESULTS))
    closed, shown = close(study, store)
    check_closed(study, closed)
    missing = set(study.store.list(RESULTS)) - before
    cells = take_snapshot(study).waves[0].cells[:LOST]
    assert missing == {result_key(cell.episode) for cell in cells}
    read = [key for key in store.read if key.startswith((ATTEMPTS, RESULTS))]
    stored = [key for folder in (ATTEMPTS, RESULTS) for key in study.store.list(folder)]
    assert len(read) == len(stored) + LOST  # attempts that failed, to record that they did
    assert set(read) == set(stored)
    assert list(dict.fromkeys(what for what, _ in shown)) == [
        "closing: recording missing episodes",
        "closing: listing objects with their digests",
    ]
    assert shown[-1][1] == closed.objects


def test_closing_that_is_killed_at_any_put_goes_on(tried: Path, tmp_path: Path) -> None:
    for last in count():
        study = open_study(shutil.copytree(tried, tmp_path / str(last)))
        try:
            close(study, WatchedStore(study.folder / "store", last))
        except KeyboardInterrupt:
            assert not study.ledger.find("wave-closed")
            closed, _ = close(study)
            check_closed(study, closed)
        else:
            break
    assert last == LOST + 2  # results of missing episodes, the inventory's only part, its head

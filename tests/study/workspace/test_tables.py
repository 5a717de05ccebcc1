"""Tables of closed waves: the same parts whatever is done first, and no part that the study's key
did not make is read."""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.storage import RESULTS, TABLES
from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, StoreError
from registry.ledger.inventory import head_key, part_key
from registry.sealing import encrypt, new_identity, write_identity
from registry.stores.base import Store
from registry.stores.folder import FolderStore
from study.steps import pipeline
from study.steps.sweep.exposure_ledger import exact_rows
from study.steps.verify.verify import VerifyRequest
from study.workspace import tables
from study.workspace.address import open_study
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, closed_wave
from study.workspace.tables import WaveTable
from tests.ledgers import keys_of_cell, plain_object
from tests.study.conftest import SINGLE, make_study, run_wave
from tests.study.steps.sweep.test_closing import WatchedStore

TEXT = SINGLE.replace("seeds_per_arm: 6", "seeds_per_arm: 7")
OWED = 14  # results of the wave
ROWS = 4  # a part
PARTS = 4


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_ROWS", ROWS)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a closed wave, of which no rows are derived."""
    study = make_study(tmp_path_factory.mktemp("closed") / "small", TEXT)
    run_wave(study)
    return study.folder


@pytest.fixture
def study(closed: Path, tmp_path: Path) -> Study:
    return open_study(shutil.copytree(closed, tmp_path / "small"))


def table_of(study: Study, store: Store | None = None) -> WaveTable:
    closed = closed_wave(study.ledger, 0)
    assert closed is not None
    return WaveTable(study if store is None else replace(study, store=store), closed)


def singly(study: Study) -> list[EpisodeResult]:
    """The results as they are stored."""
    keys, own = sorted(study.store.list(RESULTS)), study.keys()
    return [RESULT_CODEC.read(study.store, key, own) for key in keys]


def plain_parts(study: Study) -> dict[str, bytes]:
    """The decrypted parts by key."""
    return {key: plain_object(study, key) for key in study.store.list(TABLES)}


def rewrite(study: Study, key: str, data: bytes) -> None:
    """Change an object, as whoever may write to the folder can."""
    (study.folder / "store" / key).write_bytes(data)


def test_rows_are_the_results_in_the_order_of_their_keys(study: Study) -> None:
    expected = singly(study)
    assert len(expected) == OWED
    derived = [*table_of(study).results()]
    assert [*table_of(study).results()] == derived == expected
    assert len(plain_parts(study)) == PARTS


def test_parts_have_the_same_bytes_whatever_is_stored_or_derived_first(
    study: Study, tmp_path: Path
) -> None:
    list(table_of(study).parts())
    expected = plain_parts(study)
    for seed in range(3):
        order = Random(seed)
        other = FolderStore(tmp_path / str(seed), durable=False)
        keys = [key for key in study.store.list() if not key.startswith(TABLES)]
        for key in order.sample(keys, len(keys)):
            other.put(key, study.store.get(key))
        copied = replace(study, store=other)
        table = table_of(copied)
        for number in order.sample(range(PARTS), PARTS):
            table._put(number, table._derive(number))
        assert plain_parts(copied) == expected


def test_deriving_that_is_killed_at_any_put_goes_on_with_the_missing_parts(study: Study) -> None:
    folder = study.folder / "store" / "tables"
    list(table_of(study).parts())
    expected = plain_parts(study)
    for last in range(PARTS):
        shutil.rmtree(folder)
        with pytest.raises(KeyboardInterrupt):
            list(table_of(study, WatchedStore(study.store.path, last)).parts())
        assert len(plain_parts(study)) == last
        store = WatchedStore(study.store.path)
        assert sum(part.num_rows for part in table_of(study, store).parts()) == OWED
        assert len([k for k in store.read if k.startswith(RESULTS)]) == OWED - ROWS * last
        assert plain_parts(study) == expected


def test_rows_that_are_stored_take_no_result_and_no_inventory(study: Study) -> None:
    list(table_of(study).parts())
    store = WatchedStore(study.store.path)
    snapshot = take_snapshot(replace(study, store=store))
    assert len([*exact_rows(snapshot, snapshot.closed_waves)]) == OWED
    assert not [key for key in store.read if key.startswith((RESULTS, "inventory/"))]
    assert len([key for key in store.read if key.startswith(TABLES)]) == PARTS


def test_parts_that_others_made_are_not_read(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody may encrypt to the recipients and knows the digests of all results."""
    expected = singly(study)
    list(table_of(study).parts())
    first, second, *rest = plain_parts(study)
    mac, rows = plain_parts(study)[first][:32], tables._read_part(plain_parts(study)[first][32:])
    better = [replace(r, score=1.0) for r in tables._rows().validate_python(rows.to_pylist())]
    forged = mac + tables.write_part(tables.make_part(better))
    rewrite(study, first, encrypt(forged, study.recipients()))
    rewrite(study, second, study.store.get(rest[0]))  # a real part in another's place
    rewrite(study, rest[0], b"no age file")
    rewrite(study, rest[1], encrypt(b"", (new_identity()[1],)))
    with caplog.at_level(logging.WARNING):
        assert [*table_of(study).results()] == expected
    assert len(caplog.records) == 4
    assert "sha256" not in caplog.text
    found = pipeline.verify(study, VerifyRequest(), lambda *step: None)
    assert {place for place, _ in found.problems} == {first, second, *rest[:2]}
    assert len(found.problems) == 4
    assert dict(found.counts)["parts of tables derived again"] == PARTS


def test_verify_derives_the_rows_again(study: Study) -> None:
    found = pipeline.verify(study, VerifyRequest(), lambda *step: None)
    assert found.holds
    assert "parts of tables" not in dict(found.counts)
    table = table_of(study)
    table._put(2, table._derive(3))  # by a holder of the key
    list(table_of(study).parts())
    found = pipeline.verify(study, VerifyRequest(), lambda *step: None)
    key = [*plain_parts(study)][2]
    assert found.problems == ((key, "its rows are not those of the wave's results"),)
    counts = dict(found.counts)
    assert counts["parts of tables"] == counts["parts of tables derived again"] == PARTS
    assert "open objects (no record names them yet)" not in counts


def test_another_key_has_parts_of_its_own(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [*table_of(study).results()]
    theirs = set(study.store.list(TABLES))
    own, both = study.folder / "other.txt", study.folder / "both.txt"
    write_identity(own)
    both.write_text(own.read_text() + study.key_file.read_text())
    both.chmod(0o600)
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(both))
    assert [*table_of(study).results()] == expected
    assert len(set(study.store.list(TABLES)) - theirs) == PARTS


def test_results_that_were_exchanged_altered_or_removed_give_no_rows(study: Study) -> None:
    keys = sorted(study.store.list(RESULTS))
    true = {key: study.store.get(key) for key in keys}
    forged = replace(singly(study)[0], score=0.125)
    sealed = keys_of_cell(study, keys[0]).seal(keys[0], RESULT_CODEC.encode(forged))
    for place, data in ((keys[0], true[keys[1]]), (keys[0], sealed), (keys[7], b"")):
        rewrite(study, place, data)
        with pytest.raises(BrokenPromise, match=place):
            list(table_of(study).parts())
        rewrite(study, place, true[place])
    (study.folder / "store" / keys[-1]).unlink()
    with pytest.raises(BrokenPromise, match=rf"{keys[-1]}: missing, and wave 0"):
        list(table_of(study).parts())


def test_an_inventory_of_other_results_gives_no_rows(study: Study) -> None:
    """Inventories are public: whoever may write can put another one in its place."""
    closed = closed_wave(study.ledger, 0)
    assert closed is not None
    head = head_key(closed.objects_root)
    (part,) = study.store.get(head).decode().split()
    lines = study.store.get(part_key(part)).decode().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if f"  {RESULTS}" in line)

    def replaced(*changed: str) -> None:
        data = "".join((*lines[:first], *changed, *lines[first + 2 :])).encode()
        name = digest_bytes(data).removeprefix("sha256:")
        study.store.put(part_key(name), data)
        rewrite(study, head, f"{name}\n".encode())

    one, two = (line.split("  ") for line in lines[first : first + 2])
    replaced(f"{two[0]}  {one[1]}", f"{one[0]}  {two[1]}")  # digests exchanged
    with pytest.raises(BrokenPromise, match="lists other results than the ledger records"):
        list(table_of(study).parts())
    replaced(f"{one[0]}  {two[1]}", f"{two[0]}  {one[1]}")  # names exchanged, in vain
    with pytest.raises(BrokenPromise, match="not the result that wave 0 was closed with"):
        list(table_of(study).parts())
    replaced("".join(lines[first]))  # one left out
    with pytest.raises(BrokenPromise, match="lists other results than the ledger records"):
        list(table_of(study).parts())
    assert not plain_parts(study)


def test_rows_are_read_from_a_store_that_takes_none(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    class ReadOnly(WatchedStore):
        def put(self, key: str, data: bytes) -> bool:
            raise StoreError("read-only")

    with caplog.at_level(logging.WARNING):
        assert [*table_of(study, ReadOnly(study.store.path)).results()] == singly(study)
    assert "rows are derived again each time they are read: read-only" in caplog.text
    assert not plain_parts(study)


def test_no_row_rests_in_plain(study: Study) -> None:
    list(table_of(study).parts())
    model = b"honest"
    assert all(model in data for data in plain_parts(study).values())
    stored = [study.store.get(key) for key in study.store.list(TABLES)]
    assert not any(model in data or b"PAR1" in data for data in stored)


def test_verify_needs_no_library_for_parquet(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.delattr("pyarrow.parquet", raising=False)
    assert pipeline.verify(study, VerifyRequest(), lambda *step: None).holds

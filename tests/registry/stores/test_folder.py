"""What the folder store adds: kill -9, power, full and read-only disks, symbolic links."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry.errors import MissingKey, StoreError
from registry.stores import open_store
from registry.stores.folder import FolderStore
from tests.cases import cases
from tests.faults import remount

ROOT = Path(__file__).resolve().parents[3]

WRITER = cases(__file__, "writer")


def test_a_folder_of_many_names_is_listed_in_order(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, durable=False)
    names = sorted(f"a/{n * 37 % 101}" + "/b" * (n % 3 == 0) for n in range(41))
    for name in names:
        store.put(name, b"")
    assert list(store.list()) == names
    assert list(store.list("a/9")) == [name for name in names if name.startswith("a/9")]
    partly = store.list()
    assert next(partly) == names[0]  # and the rest is never asked for


def test_a_writer_killed_at_any_moment_leaves_no_part_of_an_object(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for kill in range(12):
        _write_until_killed(tmp_path, f"kill-{kill}", 0.005 * kill)
    keys = list(store.list())
    assert keys
    for key in keys:
        assert store.get(key) == bytes([int(key[-6:]) % 256]) * 300_000
        assert not store.put(key, b"")


def test_what_dead_writers_left_is_swept_and_what_live_ones_hold_is_not(tmp_path: Path) -> None:
    _write_until_killed(tmp_path, "first", 0.05)
    left = tmp_path / ".tmp" / "left"
    left.write_bytes(b"half an obj")
    writer = _start_writer(tmp_path, "second")
    try:
        for number in range(20):
            assert FolderStore(tmp_path).put(f"swept/{number}", b"")
        assert not left.exists()
        assert writer.poll() is None, "the sweep must not take a live writer's file"
    finally:
        writer.kill()
        writer.wait()
    assert FolderStore(tmp_path).put("last", b"")
    assert list((tmp_path / ".tmp").iterdir()) == []


def _start_writer(folder: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), name]
    writer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    writer.stdout.close()
    return writer


def _write_until_killed(folder: Path, name: str, seconds: float) -> None:
    writer = _start_writer(folder, name)
    time.sleep(seconds)
    writer.send_signal(signal.SIGKILL)
    writer.wait()


def test_a_full_disk_is_one_clear_error_and_nothing_half_written(small_disk: Path) -> None:
    store = FolderStore(small_disk)
    assert store.put("fits", b"x" * 100_000)
    with pytest.raises(StoreError, match=r"too-big: the disk is full: free some space"):
        store.put("too-big", b"x" * 400_000)
    assert list(store.list()) == ["fits"]
    assert list((small_disk / ".tmp").iterdir()) == []
    assert store.put("fits-too", b"x" * 50_000)


def test_a_read_only_disk_reads_and_refuses_to_write(small_disk: Path) -> None:
    FolderStore(small_disk).put("there", b"1")
    remount(small_disk, "ro")
    store = FolderStore(small_disk)
    assert store.get("there") == b"1"
    assert list(store.list()) == ["there"]
    assert not store.put("there", b"2")
    with pytest.raises(StoreError, match=r"new/one: the file system is read-only: remount it"):
        store.put("new/one", b"")


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the read-only disk shows the same")
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="permission denied"):
        FolderStore(tmp_path).put("a", b"")


def test_symbolic_links_out_of_the_store_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store = FolderStore(tmp_path / "store")
    store.put("real/object", b"1")
    (store.path / "results").symlink_to(outside)
    (store.path / "real" / "link").symlink_to(outside / "secret")
    for key in ("results/secret", "results/new", "real/link"):
        for use in (store.get, store.exists, lambda bad: store.put(bad, b"")):
            with pytest.raises(StoreError, match="symbolic link"):
                use(key)
    for prefix in ("", "real/", "results/"):
        with pytest.raises(StoreError, match="symbolic link"):
            list(store.list(prefix))
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


def test_the_store_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    store = FolderStore(tmp_path / "store")
    assert store.put("a/b", b"1")
    assert list(store.list()) == ["a/b"]
    assert (tmp_path / "disk" / "a" / "b").read_bytes() == b"1"


def test_a_name_below_an_object_is_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a/b", b"1")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        store.put("a/b/c", b"")
    with pytest.raises(StoreError, match="a folder stands where a file is needed"):
        store.put("a", b"")
    with pytest.raises(MissingKey):
        store.get("a")


def test_a_store_that_is_not_there_yet_is_empty_and_stays_unmade(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "not" / "yet")
    assert list(store.list()) == []
    assert not store.exists("a")
    assert not (tmp_path / "not").exists()


def test_the_uri_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri = FolderStore("store").uri
    assert re.fullmatch(r"file:/.*/store", uri)
    open_store(uri).put("a", b"")
    assert (tmp_path / "store" / "a").is_file()

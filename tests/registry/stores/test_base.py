"""One suite for every store: of racing writers one wins, readers see whole objects or none."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.errors import MissingKey, StoreError
from registry.stores import open_store, s3
from registry.stores.base import MemoryStore, Store, check_key
from registry.stores.folder import FolderStore
from registry.stores.s3 import S3Store

_names = (f"case-{number}" for number in count())


@pytest.fixture(
    params=[
        "memory",
        "folder",
        pytest.param("moto", marks=pytest.mark.s3),
        pytest.param("seaweedfs", marks=pytest.mark.s3),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind = request.param
    if kind == "memory":
        return MemoryStore()
    if kind == "folder":
        return FolderStore(tmp_path / "store")
    return open_store(request.getfixturevalue(kind).uri(next(_names)))


def test_what_is_put_is_got(store: Store) -> None:
    assert store.put("a/b.age", b"bytes")
    assert store.get("a/b.age") == b"bytes"
    assert store.exists("a/b.age")


def test_a_name_is_written_once(store: Store) -> None:
    assert store.put("a", b"first")
    assert not store.put("a", b"second")
    assert not store.put("a", b"first"), "not even with the same bytes"
    assert store.get("a") == b"first"


def test_what_is_replaced_has_the_last_bytes_and_is_one_object(store: Store) -> None:
    store.replace("a/beat", b"first")
    store.replace("a/beat", b"second")
    assert store.get("a/beat") == b"second"
    assert list(store.list("a/")) == ["a/beat"]
    with pytest.raises(StoreError):
        store.replace("../a", b"")


def test_of_sixteen_racing_writers_one_wins(store: Store) -> None:
    for race in range(3):
        won = _race(lambda number, key=f"race/{race}": store.put(key, b"%d" % number * 1000))
        assert won.count(True) == 1
        assert store.get(f"race/{race}") == b"%d" % won.index(True) * 1000


def test_readers_see_an_object_whole_or_not_at_all(store: Store) -> None:
    data = bytes(range(256)) * 4096  # 1 MiB
    seen: list[bytes | None] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                seen.append(store.get("big"))
            except MissingKey:
                seen.append(None)

    reader = threading.Thread(target=read)
    reader.start()
    store.put("big", data)
    seen.append(store.get("big"))
    stop.set()
    reader.join()
    assert {None if got is None else hashlib.sha256(got).hexdigest() for got in seen} <= {
        None,
        hashlib.sha256(data).hexdigest(),
    }
    assert seen[-1] is not None or seen[-2] is not None


def test_objects_may_be_empty_or_large(store: Store) -> None:
    large = hashlib.shake_256(b"large").digest(20 << 20)
    assert store.put("empty", b"")
    assert store.put("large", large)
    assert store.get("empty") == b""
    assert store.get("large") == large
    assert store.exists("empty")


def test_what_is_missing_is_said_to_be(store: Store) -> None:
    store.put("there/is", b"one")
    for key in ("nothing", "there", "there/is-not", "there/is/below"):
        assert not store.exists(key)
        with pytest.raises(MissingKey, match=key):
            store.get(key)


def test_names_are_listed_in_byte_order(store: Store) -> None:
    names = ["a-b/c", "a.b", "a/b", "a/b0", "a0", "B", "a_", "results/1.cell", "a/c"]
    for name in names:
        store.put(name, b"")
    assert list(store.list()) == sorted(set(names))
    assert list(store.list()) != names


@pytest.mark.parametrize("store", ["moto", "seaweedfs"], indirect=True)
def test_no_name_is_lost_between_pages(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{part}/{name}" for part in ("a", "a-b", "a.b", "b") for name in ("1", "1.2", "2")]
    for name in names:
        store.put(name, b"")
    monkeypatch.setattr(s3, "_PAGE", 2)
    for prefix in ("", "a", "a/", "a/1", "b/", "c/"):
        expected = sorted(name for name in names if name.startswith(prefix))
        assert list(store.list(prefix)) == expected


@pytest.mark.parametrize("store", ["moto", "seaweedfs"], indirect=True)
def test_a_long_listing_asks_for_few_parts_ahead(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a/{n:02x}/{n:02x}{end}" for n in range(0, 256, 12) for end in (".1", "-2", "3")]
    for name in names:
        store.put(name, b"")
    monkeypatch.setattr(s3, "_PAGE", 30)
    monkeypatch.setattr(s3, "_LISTERS", 2)
    asked, ask = list[str](), store._pages
    monkeypatch.setattr(store, "_pages", lambda *of, **how: asked.append(of[0]) or ask(*of, **how))
    listed = store.list("a/")
    first = next(listed)
    assert len(asked) <= 2 + 3, "the folder, its subfolders, and few of these"
    assert [first, *listed] == sorted(names)


def test_a_prefix_is_any_beginning_of_a_name(store: Store) -> None:
    names = ["run/1/a", "run/1/b", "run/10/a", "run/2", "runs"]
    for name in names:
        store.put(name, b"")
    assert list(store.list("run/1")) == ["run/1/a", "run/1/b", "run/10/a"]
    assert list(store.list("run/1/")) == ["run/1/a", "run/1/b"]
    assert list(store.list("run/1/a")) == ["run/1/a"]
    assert list(store.list("run")) == names
    assert list(store.list("no")) == []
    assert list(store.list("no/such/")) == []


@pytest.mark.parametrize(
    "store", ["memory", "folder", pytest.param("seaweedfs", marks=pytest.mark.slow)], indirect=True
)
def test_more_names_than_a_page_holds_are_listed(store: Store) -> None:
    names = [f"many/{number:04d}" for number in range(1100)]
    _in_threads(8, lambda number: [store.put(name, b"x") for name in names[number::8]])
    assert list(store.list("many/")) == names


BAD_KEYS = ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.", ".tmp/x", "a b", "a\nb", "ä", "a\\b"]


@pytest.mark.parametrize("key", [*BAD_KEYS, "x" * 201, "/".join(["x" * 100] * 10)])
def test_bad_keys_are_refused(store: Store, key: str) -> None:
    for use in (store.get, store.exists, lambda bad: store.put(bad, b"")):
        with pytest.raises(StoreError, match="store key"):
            use(key)


@pytest.mark.parametrize("prefix", ["../", "/etc", ".", "a//", "a/../"])
def test_bad_prefixes_are_refused(store: Store, prefix: str) -> None:
    with pytest.raises(StoreError, match="store key"):
        list(store.list(prefix))


PART = st.builds(str.__add__, st.sampled_from("Az0_"), st.text("Az0._-", max_size=3))
KEY = st.lists(PART, min_size=1, max_size=3).map("/".join)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=st.lists(KEY, max_size=8, unique=True), prefix=st.one_of(st.just(""), PART, KEY))
def test_a_folder_lists_as_a_dict_would(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], prefix: str
) -> None:
    store = FolderStore(tmp_path_factory.mktemp("listed"), durable=False)
    there = [key for key in keys if not any(other.startswith(key + "/") for other in keys)]
    for key in there:
        assert store.put(check_key(key), key.encode())
    assert list(store.list(prefix)) == sorted(key for key in there if key.startswith(prefix))


@pytest.mark.parametrize("store", ["folder", "moto", "seaweedfs"], indirect=True)
def test_a_store_opens_again_by_its_uri(store: Store) -> None:
    store.put("a", b"1")
    again: Store = open_store(store.uri)
    assert again.get("a") == b"1"
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"
    assert again.uri == store.uri


def _race(put: Callable[[int], bool]) -> list[bool]:
    won: list[Any] = [None] * 16
    ready = threading.Barrier(16)

    def write(number: int) -> None:
        ready.wait()
        won[number] = put(number)

    _in_threads(16, write)
    return won


def _in_threads(number: int, work: Callable[[int], Any]) -> None:
    threads = [threading.Thread(target=work, args=(each,)) for each in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

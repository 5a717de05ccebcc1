"""The results of a closed wave are found in the few parts of its inventory that list them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import product

import pytest

from registry.canonical import digest_bytes
from registry.errors import BrokenPromise
from registry.ledger import inventory
from registry.ledger.inventory import (
    RUN_FOLDERS,
    episode_stem,
    part_key,
    read_results,
    write_inventory,
)
from registry.ledger.records import WaveClosed
from registry.stores.base import MemoryStore

LINES = 4  # a part


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "_LINES", LINES)


def names(attempts: int, results: int, beside: int) -> Iterator[str]:
    for folder, count in (("attempts/", attempts), ("results/", results), ("runs/", beside)):
        yield from (f"{folder}{number:064x}.age" for number in range(count))


def close(store: MemoryStore, attempts: int, results: int, beside: int = 2) -> WaveClosed:
    for name in names(attempts, results, beside):
        store.put(name, name.encode())
    written = write_inventory(store, names(attempts, results, beside))
    return WaveClosed(
        0, "", results, results, 0, written.results_root, written.objects, written.objects_root
    )


def test_results_are_found_wherever_they_lie() -> None:
    for attempts, results, beside in product(range(10), range(10), range(3)):
        store = MemoryStore()
        closed = close(store, attempts, results, beside)
        expected = [(name, digest_bytes(name.encode())) for name in names(0, results, 0)]
        assert [*read_results(store, closed)] == expected


def test_a_list_that_is_not_the_one_of_the_ledger_is_refused_at_its_end() -> None:
    closed = close(MemoryStore(), 9, 9)
    other = MemoryStore()
    forged = close(other, 9, 8)
    head = f"inventory/{closed.objects_root}.txt"
    lies = MemoryStore()
    for key in other.list():
        lies.put(key, other.get(key))
    lies.put(head, other.get(f"inventory/{forged.objects_root}.txt"))
    with pytest.raises(BrokenPromise, match="other results than the ledger records"):
        list(read_results(lies, closed))


def test_a_part_that_is_empty_or_altered_is_refused() -> None:
    empty = digest_bytes(b"").removeprefix("sha256:")
    closed = close(MemoryStore(), 9, 9)
    lies = MemoryStore()
    lies.put(part_key(empty), b"")
    lies.put(f"inventory/{closed.objects_root}.txt", f"{empty}\n".encode() * 7)
    with pytest.raises(BrokenPromise, match="other results than the ledger records"):
        list(read_results(lies, closed))
    altered = "0" * 64
    lies = MemoryStore()
    lies.put(part_key(altered), b"")
    lies.put(f"inventory/{closed.objects_root}.txt", f"{altered}\n".encode())
    with pytest.raises(BrokenPromise, match="was altered"):
        list(read_results(lies, closed))


def test_a_stem_begins_the_keys_of_all_episodes_with_these_digits() -> None:
    """Whatever their number, digits list what they begin, and nothing else."""
    episodes = [sha256(b"episode %d" % number).hexdigest() for number in range(40)]
    for folder in RUN_FOLDERS:
        keys = sorted(f"{episode_stem(folder, episode)}.age" for episode in episodes)
        assert [key.rpartition("/")[2].removesuffix(".age") for key in keys] == sorted(episodes)
        for count in (0, 1, 2, 3, 4, 5, 64):
            digits = episodes[0][:count]
            begun = [key for key in keys if key.rpartition("/")[2].startswith(digits)]
            assert [key for key in keys if key.startswith(episode_stem(folder, digits))] == begun

"""Parallel work on a store: results in order, a bounded number of items ahead, the first error."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from registry.stores.base import MemoryStore
from registry.stores.parallel import _AHEAD, _THREADS, parallel_map


class RemoteStore(MemoryStore):
    """Has the address of a remote store, so that it is read by threads."""

    uri = "s3://bucket"


STORES = [MemoryStore(), RemoteStore()]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("count", [0, 1, 3 * _AHEAD])
def test_results_come_in_the_order_of_the_items(store: MemoryStore, count: int) -> None:
    assert list(parallel_map(store, str, range(count))) == [str(n) for n in range(count)]


def test_a_remote_store_is_read_by_many_threads_at_once() -> None:
    together = threading.Barrier(_THREADS, timeout=60)
    waited = parallel_map(RemoteStore(), lambda _: together.wait(), range(2 * _THREADS))
    assert sorted(waited) == sorted(2 * [*range(_THREADS)])


def test_items_are_taken_little_before_they_are_asked_for() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(10 * _AHEAD):
            taken = number + 1
            yield number

    results = parallel_map(RemoteStore(), str, items())
    for asked in range(1, 2 * _AHEAD):
        next(results)
        assert taken <= asked + _AHEAD
    results.close()  # type: ignore[attr-defined]
    assert taken <= 3 * _AHEAD


@pytest.mark.parametrize("store", STORES)
def test_the_first_error_is_raised_after_the_results_before_it(store: MemoryStore) -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number >= 5:
            raise ValueError(number)
        return number

    results = parallel_map(store, work, range(100 * _AHEAD))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="5"):
        next(results)
    assert len(begun) <= 6 + _AHEAD

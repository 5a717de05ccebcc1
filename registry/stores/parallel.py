"""Work on many objects of a store at once, if each request to it waits for a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from registry.stores.base import Store

_THREADS = 32  # a request to S3 takes about 30 ms
_AHEAD = 4 * _THREADS  # items begun before the first of them is asked for

T = TypeVar("T")
R = TypeVar("R")


def is_remote(store: Store) -> bool:
    """Report if each request to the store waits for a network."""
    return store.uri.startswith("s3:")


def parallel_map(
    store: Store,
    work: Callable[[T], R],
    items: Iterable[T],
    ahead: int = _AHEAD,
    writes: bool = False,
) -> Iterator[R]:
    """Yield the result of ``work`` for each item, in the order of the items.

    ``work`` reads or writes objects of the store. On a remote store it runs on 32 threads, with at
    most 128 items, or ``ahead``, begun; on any other in this thread, one by one, unless it
    ``writes``: then it waits for a disk, which syncs files of several threads together. The
    items are always taken in this thread. Raises the first error of ``work`` in that order, and
    begins no more items after it.
    """
    if not is_remote(store) and not writes:
        yield from map(work, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    rest = iter(items)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="store") as pool:
        pending = deque[Future[R]](pool.submit(work, item) for item in islice(rest, ahead))
        try:
            while pending:
                result = pending.popleft().result()
                pending.extend(pool.submit(work, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in pending:
                future.cancel()

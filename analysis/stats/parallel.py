"""Work in chunks, shared among the processor's cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_EACH = 4  # chunks a thread at the least: less is not worth a thread


def in_chunks(work: Callable[[int, int], None], rows: int, step: int) -> None:
    """``work(first, count)`` for every ``step`` of ``rows``, in any order and some at once. What
    it raises is raised. It must leave Python's lock alone (as numpy does) to gain from this."""
    firsts = range(0, rows, step)
    threads = min(cores(), len(firsts) // _EACH)
    chunks = ((first, min(step, rows - first)) for first in firsts)
    if threads < 2:
        for first, count in chunks:
            work(first, count)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="analysis") as pool:
        for _ in pool.map(lambda chunk: work(*chunk), chunks):
            pass


def cores() -> int:
    """Number of cores this process may use: OMP_NUM_THREADS if it is set, as for numpy's own
    libraries (Ray sets it in its workers), else those that the system allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdecimal() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Paid calls outside of a sweep, some at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def run_each(
    work: Callable[[A], B], owed: Sequence[A], parallel: int, stop: threading.Event, name: str
) -> Iterator[B]:
    """What ``work`` gives for each that is owed, as it comes. Where it raises, or nobody listens
    any more, ``stop`` is set, and what was not begun is not."""
    with ThreadPoolExecutor(parallel, thread_name_prefix=name) as pool:
        jobs = [pool.submit(work, each) for each in owed]
        try:
            for job in as_completed(jobs):
                yield job.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise

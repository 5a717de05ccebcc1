"""Paid calls outside of a sweep, some at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TypeVar

from harness.errors import Boundary, HarnessError, name_error
from harness.spending import Spend
from registry.errors import RegistryError

A = TypeVar("A")
B = TypeVar("B")

HELD = "not paid for by the budget"
_NOT_TRIED = "not tried after that"
# Failures of a provider that the next call would meet as well.
HOPELESS = frozenset(("auth", "quota", "connection", "bad_request", "not_told"))


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one call that was owed: why it still is, "" where it is done."""

    failure: str = ""
    failed: tuple[str, ...] = ()  # requests, by class
    spend: Spend = field(default_factory=Spend)


def try_unless(stop: threading.Event, held: threading.Event, work: Callable[[], Tried]) -> Tried:
    """What ``work`` comes to, if nothing has said to stop and the budget still pays. A bug is a
    failure that is named and not quoted, since it may quote an instance or a transcript; errors
    of harness and registry are raised."""
    if stop.is_set():
        return Tried(_NOT_TRIED)
    if held.is_set():
        return Tried(HELD)
    try:
        return work()
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:
        return Tried(f"{Boundary.WORKER}:{name_error(bug)}")


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

"""A warm pool: single-use things that are made ahead, a few at a time, in the background."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.errors import AttemptFailed, HarnessError

_FAILURES = 3  # in a row, after which a worker leases no more cells

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class PoolClosed(Exception):  # noqa: N818
    """The pool makes no more."""


@dataclass(frozen=True, slots=True)
class _Made(Generic[T]):
    """Result of making one: the thing, or the error."""

    when: float
    thing: T | None
    error: BaseException | None = None


class WarmPool(Generic[K, T]):
    """``take(kind)`` hands out a thing not handed out before, made by ``make(kind)``.

    Of every kind asked for, ``ahead`` are kept ready; ``at_once`` are made at the same time,
    so that a burst of takers does not overwhelm the maker. Those older than
    ``max_age`` seconds are given to ``discard`` instead of out. An error in making raises in
    the take that it was made for. ``make(kind)`` makes one beside the pool.
    """

    def __init__(
        self,
        make: Callable[[K], T],
        discard: Callable[[T], None],
        ahead: int,
        at_once: int,
        max_age: float,
    ) -> None:
        self._make = make
        self._discard = discard
        self._ahead = ahead
        self._max_age = max_age
        self._makers = ThreadPoolExecutor(at_once, thread_name_prefix="sandbox-maker")
        self._ready: dict[K, queue.SimpleQueue[_Made[T]]] = {}
        self._spare: dict[K, int] = {}  # beyond those that takers wait for
        self._lock = threading.Lock()
        self._closed = False
        self._failed: list[str] = []  # why nothing was made since the last that was
        self._trial: Future[None] | None = None

    def make(self, kind: K) -> T:
        """Make one at once. Raises what the maker raises."""
        try:
            thing = self._make(kind)
        except AttemptFailed as error:
            self._failed.append(error.detail)
            raise
        self._failed.clear()
        return thing

    def trouble(self, kind: K) -> str:
        """Why nothing is made, after three failures in a row; "" if it is. Meanwhile one of this
        kind is tried again and again."""
        if len(failed := tuple(self._failed)) < _FAILURES:
            return ""
        with suppress(RuntimeError):  # closing
            if self._trial is None or self._trial.done():
                self._trial = self._makers.submit(self._try, kind)
        return failed[-1]

    def take(self, kind: K) -> T:
        """A fresh one; another is begun in its place. Raises what ``make`` raises, and
        PoolClosed, also while it waits."""
        asked = time.monotonic()
        ready = self.warm(kind)
        while True:
            self._begin(kind, ready)
            made = self._await(ready)
            if made.thing is None:
                # An error from before this call may have passed: make another.
                if made.when >= asked and made.error is not None:
                    raise made.error
            elif time.monotonic() - made.when > self._max_age:
                self._discard(made.thing)
            else:
                return made.thing

    def warm(self, kind: K) -> queue.SimpleQueue[_Made[T]]:
        """Begin to make those of a kind that are kept ready, if that was not done before."""
        with self._lock:
            if kind not in self._ready:
                self._ready[kind] = queue.SimpleQueue()
                self._spare[kind] = self._ahead
                for _ in range(self._ahead):
                    self._begin(kind, self._ready[kind])
            return self._ready[kind]

    def waiting(self, kind: K) -> int:
        """Return the number of a kind that are ready now."""
        return self._ready[kind].qsize() if kind in self._ready else 0

    def shed(self, kind: K) -> bool:
        """Discard one that is kept ready, of another kind, for good: it takes the room that this
        kind needs. False if there is none."""
        with self._lock:
            for other, ready in self._ready.items():
                if other == kind or not self._spare[other]:
                    continue
                with suppress(queue.Empty):
                    thing = ready.get_nowait().thing
                    self._spare[other] -= 1
                    break
            else:
                return False
        if thing is not None:
            self._discard(thing)
        return True

    def close(self) -> None:
        """Make no more, and discard what was never handed out."""
        self._closed = True
        self._makers.shutdown(wait=True, cancel_futures=True)
        for ready in self._ready.values():
            with suppress(queue.Empty):
                while True:
                    if (thing := ready.get_nowait().thing) is not None:
                        self._discard(thing)

    def _try(self, kind: K) -> None:
        with suppress(AttemptFailed, HarnessError):
            self._discard(self.make(kind))

    def _begin(self, kind: K, ready: queue.SimpleQueue[_Made[T]]) -> None:
        try:
            self._makers.submit(self._produce, kind, ready)
        except RuntimeError as error:  # it was shut down
            raise PoolClosed from error

    def _await(self, ready: queue.SimpleQueue[_Made[T]]) -> _Made[T]:
        """The next one made; what was begun for a taker is dropped when the pool closes."""
        while not self._closed:
            with suppress(queue.Empty):
                return ready.get(timeout=0.5)
        raise PoolClosed

    def _produce(self, kind: K, ready: queue.SimpleQueue[_Made[T]]) -> None:
        try:
            ready.put(_Made(time.monotonic(), self.make(kind)))
        except BaseException as error:
            ready.put(_Made(time.monotonic(), None, error))

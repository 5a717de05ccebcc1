"""The driver of a sweep: opens an epoch, starts workers, watches them, and replaces those that die.

A crew has the coordinator and the workers. ``LocalCrew`` has them on this machine, without Ray;
``ray_actors.RayCrew`` has them on a cluster. Workers run cells in processes of the same kind.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from harness.errors import HarnessError, WorkerDrained, WorkerKilled, WorkersLost
from harness.logs import name_logs
from harness.sweep.coordinator import Coordinator, SweepOptions
from harness.sweep.leases import Progress
from harness.sweep.metrics import MetricFile
from harness.sweep.workbench import RunContext
from harness.sweep.worker_process import LOG_LEVEL, POLL_SECONDS, answer_worker, open_worker_process
from registry.errors import RegistryError, StoreUnavailable

logger = logging.getLogger(__name__)

_STORE_SECONDS = 5.0  # between two tries of the coordinator at a store that is away
_GROW_SECONDS = 10.0  # between two looks at how many workers have work
# A worker that dies this often without finishing anything is not bad luck.
MAX_DEATHS = 20


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a worker: by an error, unless the run is over for it. Of one that is ``lost``, as
    its node is, the process may be at work still."""

    worker: str
    error: BaseException | None = None
    lost: bool = False


class Crew(Protocol):
    """The coordinator of a sweep and its workers."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the coordinator returns. Raises what it does, and
        CoordinatorLost."""

    def start(self, worker: str, context: RunContext) -> None:
        """Start a worker."""

    def ended(self, seconds: float) -> list[Ended]:
        """Wait for ``seconds`` at most, and return the workers that ended since the last call.
        Raises CoordinatorLost."""

    def dismiss(self) -> None:
        """Let no worker begin anything more."""

    def close(self, failure: str) -> None:
        """End the epoch, by a ``failure`` if that has words, and the coordinator."""


class LocalCrew:
    """The coordinator in this process, and worker processes of this machine, each answered by a
    thread."""

    def __init__(self, options: SweepOptions) -> None:
        self._coordinator = Coordinator(options)
        self._one_at_a_time = threading.Lock()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._links: dict[str, Connection] | None = {}  # of the workers; None once dismissed
        self._linking = threading.Lock()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the coordinator returns. Raises what it does."""
        with self._one_at_a_time:
            return getattr(self._coordinator, method)(*arguments)

    def start(self, worker: str, context: RunContext) -> None:
        """Start a worker process."""
        threading.Thread(target=self._serve, args=(worker, context), daemon=True).start()

    def ended(self, seconds: float) -> list[Ended]:
        """Wait for ``seconds`` at most, and return the workers that ended since the last call."""
        with suppress(Empty):
            return [self._ended.get(timeout=seconds)]
        return []

    def dismiss(self) -> None:
        """Cut the connections, so that no worker begins anything more."""
        with self._linking:
            links, self._links = self._links or {}, None
            for link in links.values():
                _cut(link)

    def close(self, failure: str) -> None:
        """End the epoch, by a ``failure`` if that has words."""
        self.ask("close", failure)

    def _serve(self, worker: str, context: RunContext) -> None:
        try:
            with open_worker_process(context, worker) as link:
                with self._linking:
                    if self._links is None:
                        return
                    self._links[worker] = link
                try:
                    answer_worker(link, lambda kind, *given: self.ask(kind, worker, *given))
                finally:
                    with self._linking:
                        (self._links or {}).pop(worker, None)
        except WorkerDrained:  # as this machine is, so that another would not last
            self.ask("release", worker, False)
            self._ended.put(Ended(worker))
        except BaseException as error:  # the driver decides
            self._ended.put(Ended(worker, error))
        else:
            self._ended.put(Ended(worker))


def _cut(link: Connection) -> None:
    """End a connection whose other side, or a thread of this one, may be waiting at it."""
    with socket.socket(fileno=os.dup(link.fileno())) as end, suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def run_sweep(
    crew: AbstractContextManager[Crew],
    context: RunContext,
    workers: tuple[int, int],
    watch: Callable[[Progress], None],
    waiting: Callable[[str], None] = lambda host: None,
) -> Progress:
    """Run every owed cell of a run, in a new epoch, and return the final progress. ``workers`` are
    the fewest and the most. ``waiting`` gets the host of an earlier driver while its heartbeat is
    watched.

    Dead workers are replaced and their leases passed on. Raises HarnessError if no worker can work
    (no engine, other image), before the first lease for the nodes that a cluster has then;
    SweptElsewhere; RegistryError; and KeyboardInterrupt once the replies on their way are stored.
    """
    if logger.isEnabledFor(logging.INFO):  # the worker processes inherit it
        os.environ[LOG_LEVEL] = str(logger.getEffectiveLevel())
    name_logs(context.run)
    with crew as at_work:
        driver = _Driver(context, at_work, context.epochs.open(waiting))
        metrics = MetricFile(context.run)
        try:
            watch(driver.progress())
            metrics.write(driver.progress())
            try:
                driver.start(workers[0])
                with _first_interrupt(driver):
                    while driver.wait(POLL_SECONDS):
                        driver.grow(workers)
                        watch(progress := driver.progress())
                        metrics.write(progress)
                if driver.interrupted:
                    raise KeyboardInterrupt
            except BaseException:
                at_work.dismiss()
                raise
            metrics.write(progress := driver.progress(), ended=True)
        except BaseException as error:
            explained = isinstance(error, (HarnessError, RegistryError))
            interrupted = not isinstance(error, Exception)
            other = "it was interrupted" if interrupted else type(error).__name__
            at_work.close(str(error) if explained else other)
            raise
        at_work.close("")
        watch(progress)
        return progress


@contextmanager
def _first_interrupt(driver: _Driver) -> Iterator[None]:
    """Have the first signal that would interrupt this process drain the sweep instead."""
    main = threading.current_thread() is threading.main_thread()
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if main and signal.getsignal(number) is signal.default_int_handler
    ]

    def restore(*received: object) -> None:
        driver.interrupted = driver.interrupted or bool(received)
        for number in numbers:
            signal.signal(number, signal.default_int_handler)

    for number in numbers:
        signal.signal(number, restore)
    try:
        yield
    finally:
        restore()


class _Driver:
    """What a sweep does with its crew, in an epoch."""

    def __init__(self, context: RunContext, crew: Crew, epoch: int) -> None:
        self._crew, self._epoch = crew, epoch
        self._context, self._key = replace(context, run_identity=""), context.run_identity
        self._at_work: set[str] = set()
        self._started = self._deaths = 0
        self._next_look = 0.0  # at how many workers have work
        self.interrupted = False
        self._finished = 0  # number of finished cells when a worker last died

    def progress(self) -> Progress:
        """The run's progress. Opens the lease book first if it is not: at the beginning, and after
        a coordinator was started again. Raises HarnessError, RegistryError."""
        while (progress := self._crew.ask("progress")) is None:
            opening = self._context, self._key, self._epoch, frozenset(self._at_work)
            try:
                self._crew.ask("open", *opening)
            except StoreUnavailable as error:
                logger.warning("the coordinator waits for the store: %s", error.reason)
                time.sleep(_STORE_SECONDS)
        counted: Progress = progress
        return counted

    def start(self, workers: int = 1) -> None:
        """Start workers."""
        for _ in range(workers):
            self._started += 1
            name = f"{self._epoch:06d}-{self._started}"
            self._at_work.add(name)
            self._crew.start(name, self._context)
            logger.info("started worker %s", name)

    def grow(self, workers: tuple[int, int]) -> None:
        """Start workers if there is work for more. Those that are spare end by themselves."""
        if workers[0] < workers[1] and not self.interrupted and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _GROW_SECONDS
            self.start(self._crew.ask("wanted") - len(self._at_work))

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``, replace dead workers, and return whether any is still at work.
        Raises what ended a worker that did not die."""
        if self.interrupted:
            self._crew.ask("drain")
        for end in self._crew.ended(seconds):
            self._at_work.discard(end.worker)
            if end.error is None:
                continue
            if not end.lost and not isinstance(end.error, WorkerKilled):
                raise end.error from None
            self._replace(end.worker, end.error, killed=not end.lost)
        return bool(self._at_work)

    def _replace(self, worker: str, error: BaseException, killed: bool) -> None:
        finished = self.progress().finished
        died = not isinstance(error, WorkerDrained)
        self._deaths = self._deaths + died if finished == self._finished else int(died)
        self._finished = finished
        logger.warning("worker %s ended; %d died since a cell was finished", worker, self._deaths)
        if self._deaths > MAX_DEATHS:
            raise WorkersLost(
                f"workers died {self._deaths} times and finished nothing; the last: "
                f"{str(error).splitlines()[0]}"
            ) from error
        self._crew.ask("release", worker, killed)
        self.start()

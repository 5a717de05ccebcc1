"""Sweeps on Ray: one coordinator that leases cells, workers that pull them.

The only module that imports Ray. The actors are thin shells: ``LeaseBook`` keeps the books,
``run_cell`` does the work, in each worker's hand. Results go straight to the store; only ids
travel back.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from harness.codec import decode_cells
from harness.episode import Cell
from harness.errors import CoordinatorLost, HarnessError
from harness.spending import Spend
from harness.store_keys import RESULTS, worklist_key
from harness.sweep.leases import LeaseBook, LeaseOutcome, Progress
from harness.sweep.run_cell import RunContext, count_spend, open_budget
from harness.sweep.worker_process import (
    POLL_SECONDS,
    ConnectionLost,
    dump_no_core,
    open_worker_process,
)
from registry.sealing import decrypt
from registry.stores import open_store

NAMESPACE = "dosimeter"
_DYING_SECONDS = 30.0
_MAX_LEASED = 64
_LOST = (
    "the coordinator of this sweep ended before it (its node was lost, or another sweep of this "
    "run ended it): run the same command again to go on"
)


class Coordinator:
    """Hands out leases over a run's owed cells. Rebuilds itself from the store."""

    def __init__(self, silence_seconds: float, max_failures: int) -> None:
        # Ray keeps what an actor is made with, on disk even where a cluster is set up so. The
        # context holds the run's key and comes with the calls instead, which Ray does not keep.
        dump_no_core()
        self._silence_seconds = silence_seconds
        self._max_failures = max_failures
        self._opened: LeaseBook | None = None

    def lease(
        self, context: RunContext, worker: str, count: int, holding: frozenset[str]
    ) -> tuple[tuple[Cell, ...], bool]:
        """Cells to work on, and whether the run is over for this worker."""
        book = self._book(context)
        # Few at a time: a large answer would pass through Ray's object store, which may spill.
        cells = book.lease(worker, min(count, _MAX_LEASED), time.monotonic(), holding)
        return cells, not cells and (book.progress().done or book.stalled())

    def report(self, context: RunContext, worker: str, outcomes: tuple[LeaseOutcome, ...]) -> None:
        self._book(context).report(worker, outcomes, time.monotonic())

    def hear(self, worker: str) -> None:
        if self._opened is not None:
            self._opened.hear(worker, time.monotonic())

    def release(self, worker: str) -> None:
        if self._opened is not None:
            self._opened.release(worker)

    def progress(self, context: RunContext) -> Progress:
        return self._book(context).progress()

    def _book(self, context: RunContext) -> LeaseBook:
        if self._opened is None:
            store = open_store(context.store)
            key = worklist_key(context.run_recipient)
            cells = decode_cells(decrypt(store.get(key), (context.run_identity,), key), key)
            prefix = len(RESULTS)
            finished = frozenset("sha256:" + name[prefix:-4] for name in store.list(RESULTS))
            budget = open_budget(cells, finished, store, context)

            def recount(cell: Cell) -> Spend:
                return count_spend(cell, store, context) or Spend()

            self._opened = LeaseBook.open(
                cells, finished, self._silence_seconds, self._max_failures, budget, recount
            )
        return self._opened


class Worker:
    """Has its hand pull cells and run them, and passes on what it says."""

    def __init__(self, name: str) -> None:
        dump_no_core()
        self._name = name

    def work(self, coordinator: Any, context: RunContext) -> int:
        """Pull until the run is over; how many cells this worker finished."""
        with open_worker_process(context) as link:
            while True:
                try:
                    kind, *told = link.recv()
                except ConnectionLost:
                    os._exit(1)  # the hand died, and this worker with it: another takes its place
                if kind == "finished":
                    return int(told[0])
                if kind == "raised":
                    raise told[0]
                self._pass_on(link, coordinator, context, kind, told)

    def _pass_on(
        self, link: Connection, coordinator: Any, context: RunContext, kind: str, told: list[Any]
    ) -> None:
        if kind == "lease":
            link.send(ray.get(coordinator.lease.remote(context, self._name, *told)))
        elif kind == "report":
            link.send(ray.get(coordinator.report.remote(context, self._name, *told)))
        else:
            coordinator.hear.remote(self._name)


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep is spread. Seconds are wall time."""

    address: str | None = None  # of an existing cluster; None starts one on this machine
    workers: int = 1
    silence_seconds: float = 60.0
    max_failures: int = 3


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """A connection to Ray: the one there is, an existing cluster's, or a fresh local one. See
    ``harness.sweep.ray_env`` for what must be set before this module is imported."""
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _check_reachable(address)
    try:
        ray.init(
            address=address or "local",
            namespace=NAMESPACE,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except Exception as error:  # Ray says so too where a node does not start in time
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if address is None:
            raise HarnessError(
                f"Ray does not start on this machine: {reason} (is it very busy? what is done is "
                "kept: run the same again)"
            ) from error
        raise HarnessError(
            f"no Ray cluster answers at {address}: {reason} "
            "(give --address HOST:6379, or none to start one here)"
        ) from error
    # Ray prints of dead nodes to standard output, which is for our results.
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise HarnessError at once where nothing listens: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto", or a name that Ray understands
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise HarnessError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): give the head's "
            "HOST:6379, or no --address to start one here"
        ) from error


def run_sweep(
    context: RunContext,
    options: SweepOptions,
    watch: Callable[[Progress], None],
) -> Progress:
    """Run every owed cell of the context's worklist; the book as it stood at the end.

    Dead workers are replaced and their leases handed on. Raises HarnessError where no
    worker can work (no engine, other image), and what broke a promise.
    """
    with ray_session(options.address):
        coordinator = _open_coordinator(context, options)
        try:
            _drive(_Workers(context, options, coordinator), coordinator, context, watch)
            progress: Progress = _ask(coordinator.progress.remote(context))
        finally:
            ray.kill(coordinator)
        watch(progress)
        return progress


def _open_coordinator(context: RunContext, options: SweepOptions) -> Any:
    """The run's coordinator, with its book open. It ends with its driver, however that ends, so
    that no cluster keeps seeds in memory. Raises HarnessError, RegistryError."""
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, enable_task_events=False)(
        Coordinator
    )
    deadline = time.monotonic() + _DYING_SECONDS
    while True:
        coordinator = actor.options(
            name=f"coordinator-{context.run}",
            namespace=NAMESPACE,
            get_if_exists=True,
            max_concurrency=1,
        ).remote(options.silence_seconds, options.max_failures)
        try:
            _ask(coordinator.progress.remote(context))
        except CoordinatorLost:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)  # the one of a driver just killed, which Ray is ending
        else:
            return coordinator


def _ask(call: Any) -> Any:
    """What an actor answers. Raises what it raised, and CoordinatorLost."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        raise _cause(error) from None
    except RayActorError:
        raise CoordinatorLost(_LOST) from None


def _cause(error: BaseException) -> BaseException:
    """What an actor raised, without the layers that Ray puts around it."""
    while isinstance(error, RayTaskError):
        error = error.cause
    return CoordinatorLost(_LOST) if isinstance(error, RayActorError) else error


class _Workers:
    """The workers of a sweep: started, watched, replaced."""

    # A worker that dies this often without finishing anything is not bad luck.
    MAX_DEATHS = 20

    def __init__(self, context: RunContext, options: SweepOptions, coordinator: Any) -> None:
        self._context = context
        self._coordinator = coordinator
        self._prefix = secrets.token_hex(4)
        self._started = 0
        self._deaths = 0
        self._finished = 0  # when one last died
        self._at_work: dict[Any, tuple[str, Any]] = {}  # call → name, actor
        self._clustered = options.address is not None
        for _ in range(options.workers):
            self._start()

    def wait(self, seconds: float) -> bool:
        """Wait a little, replace the dead; whether anybody is still at work."""
        done, _ = ray.wait(list(self._at_work), timeout=seconds)
        for call in done:
            name, _actor = self._at_work.pop(call)
            try:
                ray.get(call)
            except RayTaskError as error:
                self.dismiss()
                raise _cause(error) from None
            except RayActorError as error:
                self._replace(name, error)
        return bool(self._at_work)

    def dismiss(self) -> None:
        for _, actor in self._at_work.values():
            ray.kill(actor)
        self._at_work.clear()

    def _replace(self, name: str, error: RayActorError) -> None:
        finished = _ask(self._coordinator.progress.remote(self._context)).finished
        self._deaths = self._deaths + 1 if finished == self._finished else 1
        self._finished = finished
        if self._deaths > self.MAX_DEATHS:
            self.dismiss()
            raise HarnessError(
                f"workers died {self._deaths} times and finished nothing; the last: "
                f"{str(error).splitlines()[0]}"
            ) from error
        _ask(self._coordinator.release.remote(name))
        self._start()

    def _start(self) -> None:
        self._started += 1
        name = f"{self._prefix}-{self._started}"
        actor = ray.remote(max_restarts=0, enable_task_events=False)(Worker)
        worker = actor.options(
            num_cpus=0,
            resources={"sandbox": 1} if self._clustered else None,
            scheduling_strategy="SPREAD",
        ).remote(name)
        call = worker.work.remote(self._coordinator, self._context)
        self._at_work[call] = (name, worker)


def _drive(
    crew: _Workers, coordinator: Any, context: RunContext, watch: Callable[[Progress], None]
) -> None:
    try:
        while crew.wait(POLL_SECONDS):
            watch(_ask(coordinator.progress.remote(context)))
    except BaseException:
        crew.dismiss()
        raise

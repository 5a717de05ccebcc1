"""Sweeps on Ray: one coordinator that leases cells, workers that pull them.

Ray is imported here and in ``ray_cluster`` only. The actors are thin: ``LeaseBook`` has the leases,
``run_cell`` does the work in the process of each worker. Results go straight to the store; only ids
travel back.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge

from harness.build_model import provider_key
from harness.episode import Cell
from harness.errors import CoordinatorLost, HarnessError, WorkerKilled, WorkersLost
from harness.spending import Spend, uses_batches
from harness.storage import finished_names, instances_key
from harness.sweep.epochs import LOOK_SECONDS, Claim, Pulse
from harness.sweep.governor import PROBE_SECONDS, LeaseOutcome, StatedLimit
from harness.sweep.leases import LeaseBook, Progress, SweepOrder, WorkerEnd
from harness.sweep.metrics import MetricRecorder
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.ray_cluster import (
    HEAD,
    SANDBOX,
    ClusterHead,
    await_sandboxes,
    check_nodes,
    ray_session,
)
from harness.sweep.run_cell import RunContext, count_spend, keep_killed, open_budget
from harness.sweep.schedule import INSTANCES_CODEC
from harness.sweep.spool import StorePause
from harness.sweep.worker_process import (
    POLL_SECONDS,
    ConnectionLost,
    Renewal,
    begin_process,
    open_worker_process,
)
from registry.errors import RegistryError, StoreUnavailable
from registry.provenance import utc_now
from registry.stores import open_store

logger = logging.getLogger(__name__)

_ENDING_SECONDS = 30.0
_STORE_SECONDS = 5.0  # between two tries of the coordinator at a store that is away
_MAX_LEASED = 64
_LOST = (
    "the coordinator of this sweep ended before it, as its node was lost: run the same command "
    "again to go on"
)


class Coordinator:
    """Ray actor that leases a run's owed cells, once its driver has opened it: again after Ray has
    restarted it. It rebuilds itself from the store and from what its workers hold, keeps the
    driver's epoch alive, and alone on the cluster has the run's key."""

    def __init__(self, options: SweepOptions) -> None:
        # Ray stores the arguments of an actor's constructor, on some clusters on disk.
        begin_process()
        self._options = options
        self._opened: LeaseBook | None = None
        self._context: RunContext | None = None
        self._pulse: Pulse | None = None
        self._progress: Progress | None = None
        self._unheard: set[str] = set()  # workers that may hold leases of a coordinator before
        self._opened_at = 0.0
        self._metrics: MetricRecorder | None = None
        self._pauses: dict[str, StorePause] = {}  # by worker; "" is the coordinator itself
        self._next_try = 0.0  # at the store, in seconds, after a failure
        self._killed: set[str] = set()  # workers that have leases
        self._unseen: dict[str, tuple[Claim | None, float]] = {}  # workers, and since when
        self._next_look = 0.0  # at the claims of unseen workers, in seconds

    def open(
        self, context: RunContext, run_identity: str, epoch: int, workers: frozenset[str]
    ) -> None:
        """Open the lease book in an epoch of the driver's, whose ``workers`` are at work already.
        Raises HarnessError, RegistryError: StoreUnavailable may end.

        The key is an argument of its own, since Ray puts a large argument, as the context may be,
        into its object store."""
        if self._opened is not None:
            return
        self._context = replace(context, run_identity=run_identity)
        epochs = self._context.epochs
        if self._pulse is None:  # before the book, which may take minutes to read
            self._pulse = Pulse(epochs, epoch, lambda: self._progress)
        claims = epochs.claims()
        book = self._book(self._context)
        self._unheard, self._opened_at = set(workers), time.monotonic()
        for worker in claims.keys() - workers:
            book.adopt(worker, claims[worker].episodes)
            self._unseen[worker] = (claims[worker], time.monotonic())
        self._opened, self._progress = book, book.progress()
        # Ray exports them on each node that has ray[default]; elsewhere nothing comes of them.
        self._metrics = MetricRecorder(context.run, Counter, Gauge)

    def lease(
        self, worker: str, count: int, holding: frozenset[str]
    ) -> tuple[tuple[Cell, ...], bool]:
        """Return cells to work on, each with its key, and whether the run is over for this
        worker."""
        book, context, pulse = self._opened, self._context, self._pulse
        if book is None or context is None or pulse is None:
            return (), False
        if pulse.asked is SweepOrder.STOP:
            return (), True
        self._adopt(book, worker, holding)
        if self._unheard or not pulse.alive or pulse.asked is SweepOrder.PAUSE:
            return (), not holding and book.over()
        try:
            if time.monotonic() < self._next_try:
                return (), False
            self._release_ended(book, context)
            # Few at a time: a large answer would pass through Ray's object store, which may spill.
            cells = book.lease(worker, min(count, _MAX_LEASED), time.monotonic(), holding)
        except StoreUnavailable as error:  # before it leased any
            self._pauses[""] = StorePause(socket.gethostname(), error.reason)
            self._next_try = time.monotonic() + _STORE_SECONDS
            return (), False
        self._pauses.pop("", None)
        leased = tuple(replace(cell, key=context.identities_of(cell)[0]) for cell in cells)
        return leased, not cells and book.over()

    def _release_ended(self, book: LeaseBook, context: RunContext) -> None:
        """Take back the leases of workers that were killed, and of those that are not heard of any
        more once no reply to them can be on its way. Raises StoreUnavailable."""
        now = time.monotonic()
        for worker in book.silent(now):
            logger.warning("worker %s is silent", worker)
            self._unseen.setdefault(worker, (None, now))
        ended = dict.fromkeys(self._killed, WorkerEnd.KILLED)
        if now >= self._next_look:
            for worker, (before, since) in tuple(self._unseen.items()):
                claim = context.epochs.claim(worker)
                if claim is None:
                    ended[worker] = WorkerEnd.LEFT
                elif claim.process.has_ended:
                    ended[worker] = WorkerEnd.LOST
                elif claim != before:
                    self._unseen[worker] = (claim, now)
                elif now - since > self._options.silence_seconds:
                    ended[worker] = WorkerEnd.LOST
            self._next_look = now + LOOK_SECONDS
        for worker, end in ended.items():
            book.release(worker, end)
            if end is not WorkerEnd.LEFT:
                context.epochs.drop_claim(worker)
            self._killed.discard(worker)
            self._unseen.pop(worker, None)

    def report(self, worker: str, outcomes: tuple[LeaseOutcome, ...]) -> None:
        """Record how a worker's leases ended. What finished is in the store for a book that is not
        open yet."""
        if self._opened is not None:
            self._opened.report(worker, outcomes, time.monotonic())

    def hear(
        self,
        worker: str,
        holding: frozenset[str],
        pause: StorePause | None,
        calls: Mapping[str, CallCounts],
    ) -> tuple[Renewal, dict[str, CallLimit]]:
        """Record a heartbeat, what the worker is working on, why it waits for the store if it does,
        and its calls by model. Return what it may do, and the limits on its calls."""
        if pause is None:
            self._pauses.pop(worker, None)
        else:
            self._pauses[worker] = pause
        if self._opened is None or self._pulse is None:
            return Renewal.NONE, {}
        self._opened.hear(worker, time.monotonic())
        self._adopt(self._opened, worker, holding)
        limits = self._opened.limit_calls(worker, calls, time.monotonic())
        if self._metrics is not None:
            self._metrics.record(self._opened.progress, time.monotonic())
        if self._pulse.asked is SweepOrder.STOP:
            return Renewal.STOP, {}
        return Renewal.RENEWED if self._pulse.alive else Renewal.NONE, limits

    def release(self, worker: str, killed: bool) -> None:
        """Have the leases of a worker taken back: at once if its process was ``killed``; else its
        actor was lost, and the process may be at work."""
        self._pauses.pop(worker, None)
        self._unheard.discard(worker)
        if killed:
            self._killed.add(worker)
        else:
            self._unseen[worker] = (None, time.monotonic())

    def progress(self) -> Progress | None:
        """Count the cells by state; None if it is to be opened."""
        if self._opened is None or self._pulse is None:
            return None
        self._progress = replace(
            self._opened.progress(),
            pauses=tuple(self._pauses.values()),
            asked=self._pulse.asked,
            fenced=self._pulse.fenced,
        )
        return self._progress

    def close(self, failure: str = "") -> None:
        """End the epoch, by a ``failure`` if that has words: nothing more is bought in it."""
        self.progress()
        if self._pulse is not None:
            self._pulse.close(failure)

    def _adopt(self, book: LeaseBook, worker: str, holding: frozenset[str]) -> None:
        """Take over the leases that a coordinator before gave, until each worker was heard or must
        have stopped."""
        self._unseen.pop(worker, None)
        if self._unheard:
            book.adopt(worker, holding)
            self._unheard.discard(worker)
            if time.monotonic() - self._opened_at > self._options.silence_seconds:
                self._unheard.clear()

    def _book(self, context: RunContext) -> LeaseBook:
        store = open_store(context.store)
        key = instances_key(context.run_recipient)
        cells = context.schedule(INSTANCES_CODEC.read(store, key, (context.run_identity,)))
        finished = cells.marks(finished_names(store))
        budget = open_budget(cells, finished, store, context)

        def recount(cell: Cell) -> Spend:
            return count_spend(cell, store, context) or Spend()

        return LeaseBook(
            cells,
            finished,
            self._options.silence_seconds,
            self._options.max_failures,
            budget,
            recount,
            [pin.name for pin in context.models if uses_batches(pin)],
            {pin.name: provider_key(pin) for pin in context.models},
            self._options.probe_seconds,
            self._options.give_up,
            lambda cell: keep_killed(cell, store, context, utc_now),
            self._options.limits,
        )


class Worker:
    """Ray actor that starts a worker process and passes its requests on to the coordinator."""

    def __init__(self, name: str) -> None:
        begin_process()
        self._name = name

    def work(self, coordinator: Any, context: RunContext) -> int:
        """Serve the worker process until the run is over; return how many cells it finished. The
        context is without the run's key."""
        with open_worker_process(context, self._name) as link:
            while True:
                try:
                    kind, *arguments = link.recv()
                except ConnectionLost:
                    raise WorkerKilled(
                        f"the worker process on {socket.gethostname()} died"
                    ) from None
                if kind == "finished":
                    return int(arguments[0])
                if kind == "raised":
                    raise arguments[0]
                method = getattr(coordinator, kind)  # lease, report or hear
                link.send(ray.get(method.remote(self._name, *arguments)))


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Settings of a distributed sweep. Seconds are wall time."""

    address: str | None = None  # of an existing cluster; None starts one on this machine
    workers: int = 1
    silence_seconds: float = 60.0
    max_failures: int = 3
    probe_seconds: float = PROBE_SECONDS  # between probes of a provider that is down
    give_up: bool = False  # count failures of providers as failures of cells
    limits: Mapping[str, StatedLimit] = field(default_factory=dict)  # by model


def run_sweep(
    context: RunContext,
    options: SweepOptions,
    watch: Callable[[Progress], None],
    waiting: Callable[[str], None] = lambda host: None,
) -> Progress:
    """Run every owed cell of a run, in a new epoch, and return the final progress. ``waiting`` gets
    the host of an earlier driver while its heartbeat is watched.

    Dead workers are replaced and their leases passed on. Raises HarnessError if no worker can work
    (no engine, other image), before the first lease for the nodes that a cluster has then;
    SweptElsewhere; and RegistryError.
    """
    with ray_session(options.address):
        if options.address is not None:
            await_sandboxes(options.workers)
            check_nodes(context)
        epoch = context.epochs.open(waiting)
        coordination = _Coordination(context, options, epoch)
        try:
            watch(coordination.progress())
            workers, head = _Workers(context, options, coordination), ClusterHead()
            try:
                while workers.wait(POLL_SECONDS):
                    watch(coordination.progress())
                    head.check()
            except BaseException:
                workers.dismiss()
                raise
            progress = coordination.progress()
        except BaseException as error:
            explained = isinstance(error, (HarnessError, RegistryError))
            interrupted = not isinstance(error, Exception)
            other = "it was interrupted" if interrupted else type(error).__name__
            coordination.end(str(error) if explained else other)
            raise
        coordination.end()
        watch(progress)
        return progress


class Driver:
    """Ray actor that drives a sweep by itself, so that whoever began it may leave."""

    def __init__(self) -> None:
        begin_process()
        self._begun = threading.Event()

    def drive(self, context: RunContext, run_identity: str, options: SweepOptions) -> None:
        """Run the sweep, and end this process. Raises what ends the sweep before it has begun."""
        try:
            run_sweep(
                replace(context, run_identity=run_identity), options, lambda _: self._begun.set()
            )
        finally:
            if self._begun.is_set():
                os._exit(0)  # an idle actor would keep the run's key in memory

    def begun(self) -> None:
        """Wait until the sweep has begun."""
        self._begun.wait()


def detach_sweep(context: RunContext, options: SweepOptions) -> None:
    """Begin a sweep as ``run_sweep`` does, driven by an actor of the cluster, on its head if that
    has the resource. Returns when it has begun. Raises what that does."""
    with ray_session(options.address):
        driver = (
            ray.remote(num_cpus=0, max_restarts=0, enable_task_events=False)(Driver)
            .options(
                name=f"sweep-{secrets.token_hex(8)}",
                lifetime="detached",
                max_concurrency=2,
                resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else None,
            )
            .remote()
        )
        sweep = driver.drive.remote(_without_key(context), context.run_identity, options)
        begun = driver.begun.remote()
        try:
            done, _ = ray.wait([sweep, begun])
            _ask(done[0])
        except BaseException:
            ray.kill(driver)
            raise


class _Coordination:
    """The driver's side of a run's coordinator, in an epoch of the driver's. The coordinator ends
    with its driver, however that ends, so that no cluster keeps seeds in memory."""

    def __init__(self, context: RunContext, options: SweepOptions, epoch: int) -> None:
        """Start the coordinator."""
        self._context, self.epoch = context, epoch
        self._workers: set[str] = set()
        actor = ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, enable_task_events=False
        )(Coordinator)
        self.actor = actor.options(
            max_concurrency=1,
            resources={HEAD: 0.001} if HEAD in ray.cluster_resources() else None,
        ).remote(options)

    def progress(self) -> Progress:
        """The run's progress. Opens the lease book first if it is not: at the beginning, and after
        Ray has restarted the actor. Raises HarnessError, RegistryError."""
        while (progress := _ask(self.actor.progress.remote())) is None:
            workers = frozenset(self._workers)
            context, key = _without_key(self._context), self._context.run_identity
            try:
                _ask(self.actor.open.remote(context, key, self.epoch, workers))
            except StoreUnavailable as error:
                logger.warning("the coordinator waits for the store: %s", error.reason)
                time.sleep(_STORE_SECONDS)
        counted: Progress = progress
        return counted

    def begin(self, worker: str) -> None:
        """Record that a worker starts."""
        self._workers.add(worker)

    def release(self, worker: str, killed: bool) -> None:
        """Take back the leases of a dead worker, whose process was ``killed`` or lost."""
        self._workers.discard(worker)
        _ask(self.actor.release.remote(worker, killed))

    def end(self, failure: str = "") -> None:
        """End the epoch and the coordinator, if it lives."""
        try:
            ray.get(self.actor.close.remote(failure), timeout=_ENDING_SECONDS)
        except RayError as error:
            logger.warning("the epoch was not closed: %s", type(error).__name__)
        finally:
            ray.kill(self.actor)


def _without_key(context: RunContext) -> RunContext:
    return replace(context, run_identity="")


def _ask(call: Any) -> Any:
    """Return an actor's answer. Raises its error, and CoordinatorLost."""
    try:
        return ray.get(call)
    except RayTaskError as error:
        raise _cause(error) from None
    except RayActorError:
        raise CoordinatorLost(_LOST) from None


def _cause(error: BaseException) -> BaseException:
    """An actor's error, without the layers that Ray puts around it."""
    while isinstance(error, RayTaskError):
        error = error.cause
    return CoordinatorLost(_LOST) if isinstance(error, RayActorError) else error


class _Workers:
    """The workers of a sweep: started, watched, replaced."""

    # A worker that dies this often without finishing anything is not bad luck.
    MAX_DEATHS = 20

    def __init__(
        self, context: RunContext, options: SweepOptions, coordination: _Coordination
    ) -> None:
        self._context = context
        self._coordination = coordination
        self._started = 0
        self._deaths = 0
        self._finished = 0  # number of finished cells when an actor last died
        self._at_work: dict[Any, tuple[str, Any]] = {}  # call → name, actor
        self._clustered = options.address is not None
        for _ in range(options.workers):
            self._start()

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``, replace dead workers, and return whether any is still at work."""
        done, _ = ray.wait(list(self._at_work), timeout=seconds)
        for call in done:
            name, _actor = self._at_work.pop(call)
            try:
                ray.get(call)
            except RayTaskError as error:
                cause = _cause(error)
                if not isinstance(cause, WorkerKilled):
                    self.dismiss()
                    raise cause from None
                self._replace(name, cause, killed=True)
            except OutOfMemoryError as error:
                self._replace(name, error, killed=True)
            except RayActorError as error:
                self._replace(name, error)
        return bool(self._at_work)

    def dismiss(self) -> None:
        """End all workers."""
        for _, actor in self._at_work.values():
            ray.kill(actor)
        self._at_work.clear()

    def _replace(self, name: str, error: Exception, killed: bool = False) -> None:
        finished = self._coordination.progress().finished
        self._deaths = self._deaths + 1 if finished == self._finished else 1
        self._finished = finished
        logger.warning("worker %s died, number %d since a cell was finished", name, self._deaths)
        if self._deaths > self.MAX_DEATHS:
            self.dismiss()
            raise WorkersLost(
                f"workers died {self._deaths} times and finished nothing; the last: "
                f"{str(error).splitlines()[0]}"
            ) from error
        self._coordination.release(name, killed)
        self._start()

    def _start(self) -> None:
        self._started += 1
        name = f"{self._coordination.epoch:06d}-{self._started}"
        actor = ray.remote(max_restarts=0, enable_task_events=False)(Worker)
        worker = actor.options(
            num_cpus=0,
            resources={SANDBOX: 1} if self._clustered else None,
            scheduling_strategy="SPREAD",
        ).remote(name)
        self._coordination.begin(name)
        call = worker.work.remote(self._coordination.actor, _without_key(self._context))
        self._at_work[call] = (name, worker)
        logger.info("started worker %s", name)

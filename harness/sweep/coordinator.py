"""The coordinator of a sweep: leases the owed cells of a run to its workers, in an epoch of its
driver's. In the driver's process, or an actor of Ray's."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from harness.build_model import provider_key
from harness.episode import Cell
from harness.logs import name_logs
from harness.spending.budget import Spend
from harness.storage import finished_names, instances_key
from harness.sweep.epochs import LOOK_SECONDS, Claim, HeartbeatSender
from harness.sweep.governor import LeaseOutcome
from harness.sweep.leases import LeaseBook, LeaseRules, Progress, SweepOrder, WorkerEnd
from harness.sweep.metrics import MetricRecorder
from harness.sweep.outbox import StorePause
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.run_cell import count_spend, keep_killed, open_budget
from harness.sweep.schedule import INSTANCES_CODEC
from harness.sweep.workbench import RunContext
from harness.sweep.worker_process import MOST_LEASED, Renewal, begin_process
from registry.errors import StoreUnavailable
from registry.provenance import utc_now
from registry.stores import open_store

logger = logging.getLogger(__name__)

_STORE_SECONDS = 5.0  # between two tries at a store that is away


@dataclass(frozen=True, slots=True)
class SweepOptions(LeaseRules):
    """Settings of a sweep. Seconds are wall time."""

    workers: tuple[int, int] = (1, 1)  # the fewest and the most
    spare_seconds: float = 60.0  # after which a worker that is not needed ends


class Coordinator:
    """Leases a run's owed cells, once its driver has opened it: again after Ray, whose actor it may
    be, has restarted it. It rebuilds itself from the store and from what its workers hold, keeps
    the driver's epoch alive, and alone on the cluster has the run's key."""

    def __init__(
        self, options: SweepOptions, measure: Callable[[str], MetricRecorder] | None = None
    ) -> None:
        # Ray stores the arguments of an actor's constructor, on some clusters on disk.
        begin_process()
        self._options, self._measure = options, measure
        self._opened: LeaseBook | None = None
        self._context: RunContext | None = None
        self._heartbeat: HeartbeatSender | None = None
        self._progress: Progress | None = None
        self._unheard: set[str] = set()  # workers that may hold leases of a coordinator before
        self._opened_at = 0.0
        self._metrics: MetricRecorder | None = None
        self._pauses: dict[str, StorePause] = {}  # by worker; "" is the coordinator itself
        self._next_try = 0.0  # at the store, in seconds, after a failure
        self._killed: set[str] = set()  # workers that have leases
        self._careful = False  # a worker was killed: one of the cells that it held may be why
        self._unseen: dict[str, tuple[Claim | None, float]] = {}  # workers, and since when
        self._paused = False  # when it was last asked for a lease
        self._spare: dict[str, float] = {}  # workers that are not needed, and since when
        self._next_look = 0.0  # at the claims of unseen workers, in seconds
        self._draining = False

    def open(
        self, context: RunContext, run_identity: str, epoch: int, workers: frozenset[str]
    ) -> None:
        """Open the lease book in an epoch of the driver's, whose ``workers`` are at work already.
        Raises HarnessError, RegistryError: StoreUnavailable may end.

        The key is an argument of its own, since Ray puts a large argument, as the context may be,
        into its object store."""
        if self._opened is not None:
            return
        name_logs(context.run)
        self._context = replace(context, run_identity=run_identity)
        epochs = self._context.epochs
        if self._heartbeat is None:  # before the book, which may take minutes to read
            self._heartbeat = HeartbeatSender(epochs, epoch, lambda: self._progress)
        claims = epochs.claims()
        book = self._book(self._context, f"{epoch:06d}-{time.time_ns()}")
        self._unheard, self._opened_at = set(workers), time.monotonic()
        for worker in claims.keys() - workers:
            book.adopt(worker, claims[worker].episodes)
            self._unseen[worker] = (claims[worker], time.monotonic())
        self._opened, self._progress = book, book.progress()
        self._metrics = self._measure(context.run) if self._measure else None

    def lease(
        self, worker: str, count: int, holding: frozenset[str]
    ) -> tuple[tuple[Cell, ...], bool]:
        """Return cells to work on, each with its key, and whether the run is over for this
        worker."""
        book, context, heartbeat = self._opened, self._context, self._heartbeat
        if book is None or context is None or heartbeat is None:
            return (), False
        if self._asked is SweepOrder.STOP:
            return (), True
        self._adopt(book, worker, holding)
        if self._is_spare(worker, book):
            return (), True
        if self._unheard or not heartbeat.alive or self._asked is SweepOrder.PAUSE:
            self._paused = self._asked is SweepOrder.PAUSE
            return (), not holding and book.over()
        if self._paused:
            book.try_now()
            self._paused = False
        try:
            if time.monotonic() < self._next_try:
                return (), False
            self._release_ended(book, context)
            if self._careful:  # nothing ahead, that few cells are blamed for the next one
                count = min(count, max(0, context.parallel - len(holding)))
            if book.budget is not None:
                book.budget.draw(min(count, MOST_LEASED))
            # Few at a time: a large answer would pass through Ray's object store, which may spill.
            cells = book.lease(worker, min(count, MOST_LEASED), time.monotonic(), holding)
        except StoreUnavailable as error:  # before it leased any
            self._pauses[""] = StorePause(socket.gethostname(), error.reason)
            self._next_try = time.monotonic() + _STORE_SECONDS
            return (), False
        self._pauses.pop("", None)
        return tuple(map(context.lease, cells)), not cells and book.over()

    def drain(self) -> None:
        """End the sweep as if an operator had asked it to stop."""
        self._draining = True

    def over(self) -> bool:
        """Return True if a worker that begins now has nothing to do."""
        book = self._opened
        return book is not None and (self._asked is SweepOrder.STOP or book.over())

    @property
    def _asked(self) -> SweepOrder:
        if self._draining or self._heartbeat is None:
            return SweepOrder.STOP
        return self._heartbeat.asked

    def wanted(self) -> int:
        """Return the number of workers that have work, between the fewest and the most."""
        if (book := self._opened) is None or self._context is None:
            return 0
        fewest, most = self._options.workers
        return max(fewest, min(most, math.ceil(book.demand() / self._context.parallel)))

    def _is_spare(self, worker: str, book: LeaseBook) -> bool:
        """Return True if the workers before this one have been enough for a while."""
        now, (fewest, most) = time.monotonic(), self._options.workers
        if fewest < most and worker in book.workers(now)[self.wanted() :]:
            return now - self._spare.setdefault(worker, now) >= self._options.spare_seconds
        self._spare.pop(worker, None)
        return False

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
            book.release(worker, end, context.parallel)
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
        if self._opened is None or self._heartbeat is None:
            return Renewal.NONE, {}
        self._opened.hear(worker, time.monotonic())
        self._adopt(self._opened, worker, holding)
        limits = self._opened.limit_calls(worker, calls, time.monotonic())
        if self._metrics is not None:
            self._metrics.record(self._opened.progress, time.monotonic())
        if self._asked is SweepOrder.STOP:
            return Renewal.STOP, {}
        return Renewal.RENEWED if self._heartbeat.alive else Renewal.NONE, limits

    def release(self, worker: str, killed: bool) -> None:
        """Have the leases of a worker taken back: at once if its process was ``killed``; else its
        actor was lost, and the process may be at work."""
        self._pauses.pop(worker, None)
        self._unheard.discard(worker)
        if killed:
            self._killed.add(worker)
            self._careful = True
        else:
            self._unseen[worker] = (None, time.monotonic())

    def progress(self) -> Progress | None:
        """Count the cells by state; None if it is to be opened."""
        if self._opened is None or self._heartbeat is None:
            return None
        self._progress = replace(
            self._opened.progress(),
            pauses=tuple(self._pauses.values()),
            asked=self._asked,
            fenced=self._heartbeat.fenced,
        )
        return self._progress

    def close(self, failure: str = "") -> None:
        """End the epoch, by a ``failure`` if that has words: nothing more is bought in it."""
        self.progress()
        if self._heartbeat is not None:
            self._heartbeat.close(failure)
        if self._opened is not None and self._opened.budget is not None:
            try:
                self._opened.budget.close()
            except StoreUnavailable as error:
                logger.warning("the team's budget keeps what is left of this wave's: %s", error)

    def _adopt(self, book: LeaseBook, worker: str, holding: frozenset[str]) -> None:
        """Take over the leases that a coordinator before gave, until each worker was heard or must
        have stopped."""
        self._unseen.pop(worker, None)
        if self._unheard:
            book.adopt(worker, holding)
            self._unheard.discard(worker)
            if time.monotonic() - self._opened_at > self._options.silence_seconds:
                self._unheard.clear()

    def _book(self, context: RunContext, worker: str) -> LeaseBook:
        store = open_store(context.store)
        begun = context.begun_list(store, worker)
        key = instances_key(context.run_recipient)
        cells = context.schedule(INSTANCES_CODEC.read(store, key, context.run_keys))
        finished = cells.marks(finished_names(store))
        budget = open_budget(cells, finished, store, context)

        def recount(cell: Cell) -> Spend:
            return count_spend(cell, store, context) or Spend()

        pins = context.plan.models
        providers = {pin.name: name for pin in pins if (name := provider_key(pin)) is not None}
        return LeaseBook(
            cells,
            finished,
            replace(self._options, providers=providers),
            budget=budget,
            recount=recount,
            keep_killed=lambda cell: keep_killed(cell, store, context, begun, utc_now),
        )

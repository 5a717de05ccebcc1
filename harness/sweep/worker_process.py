"""The worker process: runs cells apart from the driver, and from the Ray actor on a cluster.

When a driver dies, Ray ends its actors at once, and with them would go every reply that is under
way and paid for. So the cells run in a process of their own, connected to driver or actor. When the
connection breaks, the process buys nothing more, stores the replies that still come, and exits.
Meanwhile its claim stands: the next sweep waits for those cells and finds them done. SIGTERM and
SIGINT drain the process: it does the same, in touch with the driver, and empties its outbox.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any

from harness.episode import Cell
from harness.errors import HarnessError, WorkerDrained, WorkerKilled, WorkStopped
from harness.logs import log_formatter, logs_json, name_logs
from harness.sweep.epochs import WorkerClaims
from harness.sweep.governor import LeaseOutcome
from harness.sweep.outbox import StorePause
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import RunContext, Workbench
from registry.errors import RegistryError, StoreError
from registry.provenance import utc_now

logger = logging.getLogger(__name__)

LOG_LEVEL = "DOSIMETER_LOG_LEVEL"  # environment of the processes of a sweep whose driver logs
POLL_SECONDS = 0.25
_GATHER_SECONDS = 0.02  # in which further episodes may end, to be reported together
_AHEAD_SECONDS = 0.1  # the same where others have been leased ahead
HEARTBEAT_SECONDS = 5.0
URGENT_SECONDS = 1.0  # after the last heartbeat, if calls were refused
_CLAIM_SECONDS = 20.0  # after which a claim is renewed that no coordinator hears of any more
ConnectionLost = (EOFError, ConnectionError)
MOST_LEASED = 64  # cells in one message
_MOST_AHEAD = 48  # cells that a worker holds, if it can work on fewer at once
_STORING = 4  # groups of results of a worker that are stored at once
_IDLE_SECONDS = 0.25  # for which finished cells may keep a worker from others

Shuffle = Callable[[list[LeaseOutcome]], None]


class Renewal(StrEnum):
    """Answer to a worker's heartbeat."""

    RENEWED = "renewed"
    NONE = "none"  # not now: the coordinator has not been opened, or its store does not answer
    STOP = "stop"  # nothing more is bought


class LeaseClient:
    """The coordinator's lease book, through the connection to driver or actor. Its methods raise
    ConnectionLost when that is broken, and call ``waiting`` now and then while no answer comes."""

    drained = False  # once the process was asked to end

    def __init__(self, link: Connection) -> None:
        self._link = link
        self.waiting: Callable[[], None] = lambda: None

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        """Return cells to work on, and whether the run is over for this worker."""
        leased: tuple[tuple[Cell, ...], bool] = self._ask("lease", capacity, holding)
        return leased

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None:
        """Report how leased cells ended."""
        self._ask("report", outcomes)

    def hear(
        self, holding: frozenset[str], pause: StorePause | None, calls: Mapping[str, CallCounts]
    ) -> tuple[Renewal, Mapping[str, CallLimit] | None]:
        """Report that this worker is alive, what it is working on, why it waits for the store if it
        does, and its calls by model; return what it may do, and the limits on its calls."""
        answer: tuple[Renewal, Mapping[str, CallLimit] | None]
        answer = self._ask("hear", holding, pause, calls)
        return answer

    def drain(self, *_: object) -> None:
        """Handle a signal, which may come at any moment: no lock is taken here."""
        self.drained = True

    def attend(self) -> None:
        """Check that the connection stands."""
        if self._link.poll():  # an answer that no request waits for: the end of the connection
            raise EOFError

    def _ask(self, *request: object) -> Any:
        self._link.send(request)
        while not self._link.poll(_CLAIM_SECONDS):
            self.waiting()
        return self._link.recv()


class _Held:
    """Finished cells whose results are not stored yet: those of a lease are stored together, in an
    order of their own, so that neither time nor order of the objects shows which were quick."""

    def __init__(self, bench: Workbench, pool: ThreadPoolExecutor, shuffle: Shuffle) -> None:
        self._bench, self._pool, self._shuffle = bench, pool, shuffle
        self._waiting: list[LeaseOutcome] = []
        self._since = 0.0  # time of the first of them
        self.storing: dict[Future[None], tuple[LeaseOutcome, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting or self.storing)

    @property
    def episodes(self) -> Iterator[str]:
        """The cells."""
        every = chain(self._waiting, *self.storing.values())
        return (outcome.episode for outcome in every)

    def add(self, outcome: LeaseOutcome) -> None:
        """Hold a result."""
        self._since = self._since if self._waiting else time.monotonic()
        self._waiting.append(outcome)

    def is_due(self, most: int, idle: bool) -> bool:
        """Return True if ``most`` results wait; of an ``idle`` worker, to which other cells may be
        leased once it reports these, if one has waited for long."""
        late = idle and time.monotonic() - self._since > _IDLE_SECONDS
        return bool(self._waiting) and (late or len(self._waiting) >= most)

    def store(self) -> None:
        """Begin to store all results that are held."""
        self._shuffle(self._waiting)
        group = tuple(self._waiting)
        if group:
            self.storing[self._pool.submit(self._store, group)] = group
        self._waiting.clear()

    def _store(self, group: tuple[LeaseOutcome, ...]) -> None:
        for outcome in group:
            self._bench.store_held(outcome.episode)

    def take_stored(self) -> Iterator[LeaseOutcome]:
        """Yield, once, the cells whose results are stored by now; not those that are left in the
        outbox, since the sweep ends. Raises StoreError."""
        for future in [future for future in self.storing if future.done()]:
            group = self.storing.pop(future)
            with suppress(WorkStopped):
                future.result()
                yield from group


def pull(
    leases: LeaseClient, bench: Workbench, parallel: int, claims: WorkerClaims, shuffle: Shuffle
) -> int:
    """Run ``parallel`` cells at a time until the run is over; return how many were finished. When
    the connection is lost, stop buying, store what was bought, and raise.

    Cells that take a moment are leased ahead, as many as a second takes, so that not each of them
    costs a message and a claim. ``shuffle`` orders the results of a lease at random."""
    finished, over, starved, last_heartbeat = 0, False, False, 0.0
    pause: StorePause | None = None
    pending: dict[Future[LeaseOutcome], str] = {}
    pace = _Pace(parallel, time.monotonic())

    def work_on(cell: Cell, claimed: Future[bool]) -> LeaseOutcome:
        if not claimed.result():
            bench.purchases.stop()
            raise WorkStopped("another driver goes on with the run, or it has ended")
        return run_cell(cell, bench, utc_now)

    def show_claim(drop: bool) -> None:
        with suppress(StoreError):
            (claims.drop if drop else claims.renew)()

    def await_answer() -> None:
        """Meanwhile others are to wait for replies on their way only."""
        ended = not held and all(future.done() for future in pending)
        stored = ended and bench.has_stored_all()
        claiming.submit(show_claim, stored)

    with (
        ThreadPoolExecutor(1, thread_name_prefix="claims") as claiming,
        ThreadPoolExecutor(_STORING, thread_name_prefix="results") as storing,
        ThreadPoolExecutor(parallel, thread_name_prefix="episode") as pool,
    ):
        held = _Held(bench, storing, shuffle)
        leases.waiting = await_answer
        try:
            while pending or held or not over:
                leases.attend()
                if leases.drained:
                    bench.purchases.stop(draining=True)
                before, pause = pause, bench.pause()
                if pause is None and claims.unavailable:
                    pause = StorePause(socket.gethostname(), claims.unavailable)
                changed = (pause is None) != (before is None)
                asked = time.monotonic()
                urgent = bench.purchases.urgent()
                interval = URGENT_SECONDS if urgent else HEARTBEAT_SECONDS
                if changed or asked - last_heartbeat > interval:
                    holding, calls = _cells_of(pending, held), bench.purchases.report()
                    renewal, limits = leases.hear(holding, pause, calls)
                    if renewal is Renewal.RENEWED:
                        bench.purchases.renew(asked, limits)
                    elif renewal is Renewal.STOP:
                        bench.purchases.stop()
                    last_heartbeat = time.monotonic()
                over = over or bench.purchases.stopped()
                wanted = pace.wanted(asked)
                if len(pending) < max(parallel, wanted // 2) and not over and pause is None:
                    holding = _cells_of(pending, held)
                    capacity = min(wanted - len(pending), MOST_LEASED)
                    cells, over = leases.lease(capacity, holding)
                    starved = len(cells) < capacity
                    if cells:
                        claimed_cells = {*holding, *(cell.episode for cell in cells)}
                        claimed = claiming.submit(claims.take, claimed_cells)
                    for cell in cells:
                        pending[pool.submit(work_on, cell, claimed)] = cell.episode
                if not pending or held.is_due(min(wanted, MOST_LEASED), starved or over):
                    held.store()
                if not pending and not held:
                    time.sleep(POLL_SECONDS)
                    continue
                every: tuple[Future[Any], ...] = (*pending, *held.storing)
                done, working = wait(every, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                if done and working:
                    wait(every, timeout=_GATHER_SECONDS if wanted == parallel else _AHEAD_SECONDS)
                ended = [future for future in pending if future.done()]
                outcomes = [*filter(None, map(_outcome, ended))]
                for future in ended:
                    del pending[future]
                stored = [*held.take_stored()]
                for outcome in outcomes:
                    if outcome.finished:
                        held.add(outcome)
                pace.end(sum(outcome.finished for outcome in outcomes))
                report = (*(each for each in outcomes if not each.finished), *stored)
                if report:
                    finished += len(stored)
                    leases.report(report)
        except BaseException:
            bench.purchases.stop()
            while wait(pending, timeout=_CLAIM_SECONDS).not_done:
                with suppress(StoreError):
                    claims.renew()
            last = [storing.submit(bench.store_held, episode) for episode in bench.held or ()]
            while wait((*held.storing, *last), timeout=_CLAIM_SECONDS).not_done:
                with suppress(StoreError):
                    claims.renew()
            raise
    return finished


def _cells_of(pending: Mapping[Future[LeaseOutcome], str], held: _Held) -> frozenset[str]:
    """The cells that a worker holds."""
    return frozenset((*pending.values(), *held.episodes))


class _Pace:
    """How many cells a worker holds at a time: as many as it can work on, or as it finished in the
    last second or so, but no more than a lease."""

    def __init__(self, parallel: int, now: float) -> None:
        self._parallel, self._begun, self._ended = parallel, now, 0
        self._wanted = parallel

    def end(self, cells: int) -> None:
        """Count cells that were finished."""
        self._ended += cells

    def wanted(self, now: float) -> int:
        """Return the number of cells to hold."""
        if (seconds := now - self._begun) > 1.0:
            quick = min(_MOST_AHEAD, int(self._ended / seconds))
            self._wanted = max(self._parallel, quick)
            self._begun, self._ended = now, 0
        return self._wanted


def _outcome(done: Future[LeaseOutcome]) -> LeaseOutcome | None:
    """The outcome of a cell; None for one that is left as it is, since the sweep ends."""
    try:
        return done.result()
    except WorkStopped:
        return None


@contextmanager
def open_worker_process(context: RunContext, name: str) -> Iterator[Connection]:
    """Start the worker process of this name for a run and yield the connection to it, for
    ``answer_worker``. It exits when the connection is closed. Raises WorkerKilled if it is killed
    as it starts, or later; and HarnessError if it does not start."""
    near, far = socket.socketpair()
    host = socket.gethostname()
    with far:
        started = subprocess.run(
            [sys.executable, "-P", "-m", "harness.sweep.worker_process", str(far.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if log_level() else subprocess.PIPE,
            pass_fds=(far.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            check=False,
        )
    link = Connection(near.detach())
    with link:
        if started.returncode < 0:
            raise WorkerKilled(f"the worker process on {host} was killed at its start")
        if started.returncode:
            errors = (started.stderr or b"").decode(errors="replace").splitlines()
            raise HarnessError(
                f"{host}: a worker process does not start: it exits with {started.returncode}"
                f"{f' ({errors[-1]})' if errors else ''}"
            )
        try:
            link.send((context, name))
            logger.info("started a worker process for run %s", context.run)
            yield link
        except ConnectionLost:
            raise WorkerKilled(f"the worker process on {host} died") from None
    logger.info("closed the connection to a worker process of run %s", context.run)


def answer_worker(link: Connection, ask: Callable[..., Any]) -> None:
    """Answer a worker process until the run is over: ``ask`` gets the name of a method of the
    coordinator (lease, report, hear) and its arguments. Raises what ended the worker, and
    ConnectionLost."""
    while True:
        kind, *arguments = link.recv()
        if kind == "finished":
            return
        if kind == "raised":
            raise arguments[0]
        link.send(ask(kind, *arguments))


def log_level() -> int:
    """Return the level from which this process logs; 0 for none."""
    return int(os.environ.get(LOG_LEVEL, 0)) or logs_json() * logging.INFO


def begin_process() -> None:
    """Switch core dumps off, since this process holds seeds, and log if the driver does, which
    may be this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if (level := log_level()) and not logging.getLogger("harness").level:
        handler = logging.StreamHandler()
        handler.setFormatter(log_formatter("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(handlers=[handler])
        logging.getLogger("harness").setLevel(level)


def main() -> None:
    """Run cells until the run is over or the connection, given by its descriptor, breaks."""
    if os.fork():  # a dying Ray worker kills its children, so be none of them
        os._exit(0)
    if not log_level():  # nothing waits for the end of what its parent writes to
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    begin_process()
    link = Connection(int(sys.argv[1]))
    leases = LeaseClient(link)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leases.drain)
    with suppress(*ConnectionLost):
        context: RunContext
        name: str
        context, name = link.recv()
        name_logs(context.run, name)
        try:
            finished = _work(leases, context, name)
            if leases.drained:
                raise WorkerDrained(f"worker {name} on {socket.gethostname()} was asked to end")
            link.send(("finished", finished))
        except ConnectionLost:
            raise
        except Exception as error:
            link.send(("raised", error))


def _work(leases: LeaseClient, context: RunContext, name: str) -> int:
    bench = Workbench.open(context, name)
    bench.purchases.renew(time.monotonic())
    claims = WorkerClaims(context.epochs, name, bench.purchases.stopped)
    try:
        return pull(leases, bench, context.parallel, claims, random.SystemRandom().shuffle)
    finally:
        with suppress(RegistryError):
            if bench.has_stored_all():
                claims.drop()
        bench.close()


if __name__ == "__main__":
    # As the module of its name: the classes of what the connection brings are that module's.
    from harness.sweep import worker_process

    worker_process.main()

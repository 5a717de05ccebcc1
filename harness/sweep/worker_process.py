"""The hand of a worker: a process that works on cells, apart from the one that a cluster ends.

When a driver dies, Ray ends its workers at once, and with them every reply that is on its way and
paid for. So the cells are worked on in a process of their own, at the other end of a line. When
the line breaks, it buys nothing more, keeps the replies that still come, and goes. Meanwhile it
holds its cells: who goes on with the sweep on this machine waits, cell by cell, and finds them.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from harness.episode import Cell
from harness.errors import HarnessError, WorkStopped
from harness.sweep.leases import LeaseOutcome
from harness.sweep.run_cell import RunContext, Workbench, run_cell
from registry.canonical import digest_value
from registry.clock import utc_now

POLL_SECONDS = 0.25
_HEARTBEAT_SECONDS = 5.0
ConnectionLost = (EOFError, ConnectionError)


class LeaseClient(Protocol):
    """The coordinator's book, as a worker uses it. All raise ConnectionLost when there is no way to
    it any more."""

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        """Cells to work on, and whether the run is over for this worker."""
        ...

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None: ...

    def hear(self) -> None:
        """Tell that this worker is alive."""
        ...

    def attend(self) -> None:
        """Only find out whether there is a way to it."""
        ...


def pull(leases: LeaseClient, bench: Workbench, parallel: int, cell_locks: CellLocks) -> int:
    """Keep ``parallel`` cells at work until the run is over; how many were finished. When the
    line is lost, stop buying, end when what was bought is kept, and raise."""
    finished, over, heard = 0, False, 0.0
    pending: dict[Future[LeaseOutcome], str] = {}

    def work_on(cell: Cell) -> LeaseOutcome:
        with cell_locks.hold(cell.episode, bench.stop.is_set):
            return run_cell(cell, bench, utc_now)

    with ThreadPoolExecutor(parallel, thread_name_prefix="episode") as pool:
        try:
            while pending or not over:
                leases.attend()
                if time.monotonic() - heard > _HEARTBEAT_SECONDS:
                    leases.hear()
                    heard = time.monotonic()
                if len(pending) < parallel and not over:
                    capacity, holding = parallel - len(pending), frozenset(pending.values())
                    cells, over = leases.lease(capacity, holding)
                    for cell in cells:
                        pending[pool.submit(work_on, cell)] = cell.episode
                if not pending:
                    time.sleep(POLL_SECONDS)
                    continue
                done, _ = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                outcomes = tuple(future.result() for future in done)
                if outcomes:
                    finished += sum(outcome.finished for outcome in outcomes)
                    leases.report(outcomes)
                for future in done:
                    del pending[future]
        except BaseException:
            bench.stop.set()
            raise
    return finished


class CellLocks:
    """One process of this user on this machine at a time works on a cell of a store. The kernel
    lets go of the cells of one that died. A process makes one of these, and keeps it."""

    def __init__(self, store: str, folder: str | None = None) -> None:
        path = Path(folder or tempfile.gettempdir(), f".dosimeter-{os.getuid()}.cells")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._store = store
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise HarnessError(f"{path}: {error.strerror}: it must be a file of yours") from error

    @contextmanager
    def hold(self, episode: str, stopped: Callable[[], bool]) -> Iterator[None]:
        """Wait for a cell, and hold it. Raises WorkStopped when ``stopped`` meanwhile."""
        name = digest_value([self._store, episode]).removeprefix("sha256:")
        byte = int(name[:15], 16)  # of the file, which stays empty
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                break
            except BlockingIOError:
                if stopped():
                    raise WorkStopped("the sweep has ended") from None
                time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


@contextmanager
def open_worker_process(context: RunContext) -> Iterator[Connection]:
    """A hand for a run, and the line to it. It sends a request's name and arguments, last
    ``finished`` or ``raised``; it is sent answers. It ends by itself when the line is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.run(
            [sys.executable, "-P", "-m", "harness.sweep.worker_process", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            check=True,
        )
    link = Connection(ours.detach())
    with link:
        link.send(context)
        yield link


class _RemoteLeases:
    """The book at the other end of the line."""

    def __init__(self, link: Connection) -> None:
        self._link = link

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        self._link.send(("lease", capacity, holding))
        cells: tuple[Cell, ...]
        over: bool
        cells, over = self._link.recv()
        return cells, over

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None:
        self._link.send(("report", outcomes))
        self._link.recv()

    def hear(self) -> None:
        self._link.send(("hear",))

    def attend(self) -> None:
        if self._link.poll():  # nothing is ever sent unasked
            raise EOFError


def dump_no_core() -> None:
    """Have the kernel write no image of this process, which holds seeds, if it crashes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def main() -> None:
    if os.fork():  # a dying worker of Ray's kills its children: be none of them
        os._exit(0)
    dump_no_core()
    link = Connection(int(sys.argv[1]))
    with suppress(*ConnectionLost):
        context: RunContext = link.recv()
        try:
            link.send(("finished", _work(_RemoteLeases(link), context)))
        except ConnectionLost:
            raise
        except Exception as error:
            link.send(("raised", error))


def _work(leases: LeaseClient, context: RunContext) -> int:
    bench = Workbench.open(context)
    try:
        return pull(leases, bench, context.parallel, CellLocks(context.store))
    finally:
        bench.close()


if __name__ == "__main__":
    main()

"""Child processes with limits on CPU time, wall time and memory, for work on untrusted bytes.

A limit ends a child, and only the thread that waits for it learns of it. Limits are no sandbox: a
child may do what its user may.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from threading import BoundedSemaphore
from typing import Any, Generic, TypeVar, cast

from generators.errors import ChildLimitError

T = TypeVar("T")

_MOST = 4  # children of one process that work at once
_WALL = 10  # seconds of wall time for each of CPU time, since the machine may be busy
_START_SECONDS = 60.0
_NO_MEMORY = 3  # exit status
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # of libraries: each takes memory, and CPU time as it waits
_LOST = (EOFError, ConnectionError)


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits on one call: seconds of CPU time, and bytes of memory beyond what the child has."""

    seconds: int
    memory: int


@dataclass(frozen=True, slots=True)
class ChildRun(Generic[T]):
    """One call in a child: what it returned or raised, and the seconds that it ran."""

    outcome: T | Exception
    seconds: float

    def value(self) -> T:
        """Return what the function returned; raise what it raised, or ChildLimitError."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def run_in_child(
    limits: ChildLimits, function: Callable[..., T], *arguments: object
) -> ChildRun[T]:
    """Call a module's function in a child process. A call that crashes its child is tried once
    more in a new one, so that a child that others end costs nothing. Raises OSError if no child
    starts."""
    with _slots:
        begun = time.monotonic()
        for again in (False, True):
            try:
                with _child(new=again) as child:
                    return cast(ChildRun[T], child.run(limits, (function, arguments)))
            except ChildLimitError as error:
                return ChildRun(error, time.monotonic() - begun)
            except _LOST:
                pass
        crash = ChildLimitError("crashes its process")
        return ChildRun(crash, time.monotonic() - begun)


class _Child:
    """One process, which makes one call at a time."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        near, far = socket.socketpair()
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "generators.child_process", str(far.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # libraries print there, and may quote what they read
                pass_fds=(far.fileno(),),
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._link = Connection(near.detach())
        with suppress(*_LOST):
            if self._link.poll(_START_SECONDS) and self._link.recv():
                return
        self.close()
        raise OSError(f"no child process of {sys.executable} starts")

    def run(self, limits: ChildLimits, call: tuple[Callable[..., T], tuple[object, ...]]) -> Any:
        """Return the ChildRun of a call. Raises ChildLimitError; EOFError or ConnectionError if
        the child crashes."""
        status = -signal.SIGXCPU
        try:
            self._link.send((limits, *call))
            if self._link.poll(limits.seconds * _WALL):
                return self._link.recv()
        except _LOST:
            status = self._process.wait()
            if status not in (-signal.SIGXCPU, _NO_MEMORY):
                raise
        if status == _NO_MEMORY:
            raise ChildLimitError(f"takes more than {limits.memory // 1_000_000:,} MB of memory")
        raise ChildLimitError(f"takes more than {limits.seconds} s")

    def close(self) -> None:
        """End the process."""
        self._link.close()
        self._process.kill()
        self._process.wait()


_slots = BoundedSemaphore(_MOST)
_idle: list[_Child] = []
atexit.register(lambda: list(map(_Child.close, _idle)))  # the interpreter would warn of them


@contextmanager
def _child(*, new: bool) -> Iterator[_Child]:
    """Yield an idle child or a new one; it is idle afterwards unless an error ends it."""
    try:
        child = _Child() if new else _idle.pop()
    except IndexError:
        child = _Child()
    try:
        yield child
    except BaseException:
        child.close()
        raise
    _idle.append(child)


def serve(link: Connection) -> None:
    """Answer calls until the connection ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core may hold what it read
    link.send(True)
    while True:
        begun = time.monotonic()
        outcome: object
        try:
            limits, function, arguments = link.recv()
            begun = time.monotonic()
            with open("/proc/self/statm", encoding="ascii") as sizes:
                held = int(sizes.read().split()[5]) * resource.getpagesize()
            _limit(resource.RLIMIT_DATA, held + limits.memory)
            _limit(resource.RLIMIT_CPU, ceil(time.process_time()) + limits.seconds)
            outcome = function(*arguments)
        except MemoryError:
            os._exit(_NO_MEMORY)
        except Exception as error:  # the end of the connection too, which the answer meets again
            outcome = error
            if isinstance(error.__context__, MemoryError):  # libraries have their own errors of it
                os._exit(_NO_MEMORY)
        for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CPU):
            _limit(kind)
        link.send(ChildRun(outcome, time.monotonic() - begun))


def _limit(kind: int, most: int = resource.RLIM_INFINITY) -> None:
    hard = resource.getrlimit(kind)[1]
    finite = [limit for limit in (most, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(kind, (min(finite, default=resource.RLIM_INFINITY), hard))


if __name__ == "__main__":
    # As the module of its name: the classes of what the connection brings are that module's.
    from generators import child_process

    with suppress(*_LOST):
        child_process.serve(Connection(int(sys.argv[1])))

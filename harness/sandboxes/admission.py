"""Admission control: limits the total memory of all sandboxes on this host, and gives programs in
them cores of their own.

It counts those of every process. Their folders are in memory too, so memory is all that they can
take of the host.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes.user_folder import make_user_folder

logger = logging.getLogger(__name__)

SHARE = 0.8  # of the machine's memory, by default
TIMEOUT = 900.0  # seconds to wait for free memory
PAUSES = (0.05, 0.5)  # seconds between two checks, the first and the longest
LOCK_PAUSE = 0.005  # seconds between two tries to get the lock


@dataclass(frozen=True, slots=True)
class AdmissionControl:
    """At most ``most`` bytes for all sandboxes of this machine. ``taken`` returns the sum of the
    limits of those that there are."""

    most: int
    taken: Callable[[], int]
    timeout: float = TIMEOUT
    lock_file: Path | None = None  # shared by this user's processes; by default in their folder

    def check(self, size: int) -> None:
        """Raise HarnessError if a sandbox of ``size`` bytes would never be admitted."""
        if size > self.most:
            raise HarnessError(
                f"a sandbox with these limits may take {_gb(size)} (memory, work folder and its "
                f"own), but all sandboxes of this machine have {_gb(self.most)}: run it on a "
                "larger one, or raise `sandbox: {memory_gb: …}` in study.yaml"
            )

    @contextmanager
    def admit(
        self, size: int, closed: Callable[[], bool], shed: Callable[[], object]
    ) -> Iterator[None]:
        """Wait until ``size`` bytes are free; no other sandbox is admitted within the block.
        ``shed`` is called while they are not, to give up containers that are kept ready. Raises
        AttemptFailed."""
        self.check(size)
        begun, pause = time.monotonic(), PAUSES[0]
        while True:
            with _locked(self._lock(), begun + self.timeout):
                if self.taken() + size <= self.most:
                    yield
                    return
            if closed():
                raise AttemptFailed(Boundary.SANDBOX, "closed", "no more are opened")
            if time.monotonic() - begun > self.timeout:
                raise AttemptFailed(
                    Boundary.SANDBOX,
                    "no room",
                    f"in {self.timeout:.0f} s no {_gb(size)} of the {_gb(self.most)} came free "
                    "that sandboxes of this machine may take: lower `parallel` or `workers`",
                )
            if pause == PAUSES[0]:
                logger.info("a sandbox of %s waits for memory of this machine", _gb(size))
            shed()
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])

    def _lock(self) -> Path:
        return self.lock_file or make_user_folder("run") / f"admission-{socket.gethostname()}.lock"


@contextmanager
def claim_core(cores: int) -> Iterator[int | None]:
    """Hold one of this machine's cores, counted from 0: nobody else of this user is given it
    meanwhile. None while all are held."""
    folder = make_user_folder("run")
    for core in range(cores):
        file = _open_lock(folder / f"core-{socket.gethostname()}-{core}.lock")
        try:
            if _try_lock(file):
                yield core
                return
        finally:
            os.close(file)
    yield None


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


@contextmanager
def _locked(lock_file: Path, deadline: float) -> Iterator[None]:
    """Hold the lock: one thread of one process at a time. It ends with its holder. Raises
    AttemptFailed if it does not come free until then."""
    file = _open_lock(lock_file)
    try:
        while not _try_lock(file):
            if time.monotonic() > deadline:
                raise AttemptFailed(
                    Boundary.SANDBOX,
                    "no room",
                    f"another process of this user holds {lock_file}: end the one that "
                    f"`fuser {lock_file}` names",
                )
            time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(file)


def _open_lock(lock_file: Path) -> int:
    try:
        return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HarnessError(f"{lock_file}: {error.strerror}: remove it") from error


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Whether this machine has room for one more container: all of its sandboxes together may take no
more memory than is theirs, whichever process opened them. Their folders lie in memory, too, so
that this is all that they can take of the host.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import AttemptFailed, Boundary, HarnessError

SHARE = 0.8  # of the machine's memory, unless told otherwise
TIMEOUT = 900.0  # seconds to wait for room
PAUSES = (0.05, 0.5)  # seconds between two looks, the first and the longest


@dataclass(frozen=True, slots=True)
class AdmissionControl:
    """``most`` bytes for all sandboxes of this machine. ``taken`` asks what those that there are
    may take, whoever's they are."""

    most: int
    taken: Callable[[], int]
    timeout: float = TIMEOUT
    lock_file: Path | None = None  # the lock that processes share; one of this user's by default

    def check(self, size: int) -> None:
        """Raises HarnessError where a sandbox of so many bytes would never be let in."""
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
        """Wait until there is room for so many bytes; within, nobody else is let in. ``shed`` is
        called while there is none, to give up what is only kept ready. Raises AttemptFailed."""
        self.check(size)
        begun, pause = time.monotonic(), PAUSES[0]
        while True:
            with _locked(self.lock_file or _default_lock_file()):
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
            shed()
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def _default_lock_file() -> Path:
    return Path(tempfile.gettempdir(), f"dosimeter-room-{os.getuid()}.lock")


@contextmanager
def _locked(lock_file: Path) -> Iterator[None]:
    """One process, and one thread of it, at a time. The lock goes with its holder."""
    try:
        file = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HarnessError(f"{lock_file}: {error.strerror}: remove it") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)

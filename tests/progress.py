"""Waits for what other processes do. Progress decides when a wait has failed, not the clock: beside
other work everything may take many times as long, and what hangs shows nothing new."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

STALL = (
    240.0  # seconds without anything new; Ray starts in 5 on a quiet machine, in 60 on a busy one
)


class Stall:
    """Notices that a sign of progress stays the same for too long."""

    def __init__(self, sign: Callable[[], object], seconds: float = STALL) -> None:
        self._sign, self._seconds = sign, seconds
        self._seen, self._since = sign(), time.monotonic()

    def over(self) -> bool:
        """Report if nothing has changed for that long."""
        if (now := self._sign()) != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since > self._seconds


def files_of(folder: Path) -> Callable[[], object]:
    """The sign of a process that writes below a folder: how many files are there."""
    return lambda: sum(1 for _ in folder.rglob("*"))


def wait_until(
    condition: Callable[[], bool], sign: Callable[[], object] = bool, seconds: float = STALL
) -> None:
    """Wait for a condition; fail if the sign of progress stays the same for too long."""
    stall = Stall(sign, seconds)
    while not condition():
        assert not stall.over(), "it never came about"
        time.sleep(0.05)


def finish(process: subprocess.Popen[str], sign: Callable[[], object]) -> tuple[str, str]:
    """Wait for the end of a process and return its output and errors; kill it and fail if the sign
    of progress stays the same for too long."""
    stall = Stall(sign)
    while True:
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            if stall.over():
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"no progress for {STALL:.0f} s: {out}{err}") from None

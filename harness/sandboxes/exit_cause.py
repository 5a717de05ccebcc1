"""The exit cause of a container: its own programs, which the agent answers for, or something else,
which is a failure of the infrastructure.

The engine may report a kill from outside, or a shortage of memory, only after the end itself, and a
shortage that took the whole container at once not at all. Then the kernel's counters decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.sandboxes.sandbox import KILLED

Event = Mapping[str, Any]
END_TIMEOUT = 10.0  # seconds to wait for the event of the end
REASON_TIMEOUT = 2.0  # seconds to wait for the reason after the end


@dataclass(slots=True)
class ContainerExitCause:
    """Finds the exit cause of one container. ``events`` returns its events between two times in
    seconds since the epoch, waiting for the second. ``guest``: the container has a kernel of its
    own, which may be unable to stop programs or let them kill PID 1. ``running`` returns whether
    the container runs, ``restarted`` whether the engine ends by now and is started again. ``kills``
    returns how often this machine's kernel killed for lack of memory."""

    events: Callable[[int, int], Generator[Event]]
    guest: bool = False
    running: Callable[[], bool] = lambda: False
    restarted: Callable[[], bool] = lambda: False
    kills: Callable[[], int | None] = field(default=lambda: count_memory_kills())
    _opened: float = field(init=False, default_factory=time.time)
    _marks: list[tuple[float, int | None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._marks = [(self._opened, self.kills())]

    def begin(self) -> None:
        """Record that a program starts: earlier events are not caused by it."""
        self._marks = [self._marks[-1], (time.time(), self.kills())]

    def explain(self) -> tuple[str, ...] | None:
        """("memory",) if memory ran out; ("time",) if it runs on, but programs that its own kernel
        cannot stop keep the server from answering; () if it ended by itself, which only its own
        programs can cause; None if it was killed from outside, or the cause is unknown."""
        seen = self._watch(END_TIMEOUT, until_end=True)
        if _is_kill(seen) and not seen.keys() & {"oom", "kill"}:
            seen |= self._watch(REASON_TIMEOUT, until_end=False)
        if "die" not in seen:
            if "oom" in seen:
                return ("memory",)
            return ("time",) if self.guest and self.running() else None
        # It may have gone before the last program was to start.
        marks = [mark for mark in self._marks if mark[0] <= seen["die"].when]
        begun, killed = marks[-1] if marks else self._marks[0]
        if "oom" in seen and seen["oom"].when >= begun:
            return ("memory",)
        if "kill" in seen:
            return None
        if not _is_kill(seen):
            return ()
        if self.kills() != killed:
            return ("memory",)
        return () if self.guest else None

    def _watch(self, seconds: float, until_end: bool) -> dict[str, _Event]:
        """Its events, the last of each kind."""
        seen: dict[str, _Event] = {}
        with closing(self.events(int(self._opened), int(time.time() + seconds) + 1)) as events:
            for event in events:
                action = str(event.get("Action") or event.get("status"))
                attributes = event.get("Actor", {}).get("Attributes", {})
                when = int(event.get("timeNano", 0)) / 1e9
                seen[action] = _Event(when, str(attributes.get("exitCode", "")))
                if until_end and action == "die":
                    break
        return seen


@dataclass(frozen=True, slots=True)
class _Event:
    when: float  # seconds since the epoch
    code: str


def _is_kill(seen: Mapping[str, _Event]) -> bool:
    return "die" in seen and seen["die"].code == str(KILLED)


def count_memory_kills() -> int | None:
    """Return the number of times that this kernel has killed for lack of memory, a container's or
    the machine's; None if it does not report that."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return None
    counts = dict(line.split() for line in text.splitlines())
    return int(counts["oom_kill"]) if "oom_kill" in counts else None

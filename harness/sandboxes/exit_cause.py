"""Why a container ended: by its own programs' doing, which is the agent's, or not, which is ours.

The engine tells of a kill from outside, and of a shortage of memory, sometimes only after it has
told of the end itself; and of a shortage not at all where the whole container went at once. What
the kernel counts decides then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.sandboxes.base import KILLED

Event = Mapping[str, Any]
END_TIMEOUT = 10.0  # seconds until an end that nobody tells of is given up
REASON_TIMEOUT = 2.0  # seconds after the end in which its reason may still be told


class EventStream(Protocol):
    """Events as they come, to be closed."""

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class ContainerExitCause:
    """Looks into one container's end. ``events`` gives those of the container between two times
    in seconds since the epoch, waiting for the second. ``guest``: the container's kernel is one of
    its own, which may let programs kill PID 1. ``kills`` counts how often this machine's kernel
    killed for want of memory."""

    events: Callable[[int, int], EventStream]
    guest: bool = False
    kills: Callable[[], int | None] = field(default=lambda: count_memory_kills())
    _opened: float = field(init=False, default_factory=time.time)
    _marks: list[tuple[float, int | None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._marks = [(self._opened, self.kills())]

    def begin(self) -> None:
        """A program starts: what happened before is not its doing."""
        self._marks = [self._marks[-1], (time.time(), self.kills())]

    def explain(self) -> tuple[str, ...] | None:
        """("memory",) if it ran out of that; () if it went by itself, which only its own programs
        bring about; None if somebody else killed it, or nobody can tell."""
        seen = self._watch(END_TIMEOUT, until_end=True)
        if _is_kill(seen) and not seen.keys() & {"oom", "kill"}:
            seen |= self._watch(REASON_TIMEOUT, until_end=False)
        if "die" not in seen:
            return ("memory",) if "oom" in seen else None
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
        """What happened to it, the last of each kind."""
        seen: dict[str, _Event] = {}
        with closing(self.events(int(self._opened), int(time.time() + seconds) + 1)) as stream:
            for event in stream:
                action = str(event.get("Action") or event.get("status"))
                told = event.get("Actor", {}).get("Attributes", {})
                when = int(event.get("timeNano", 0)) / 1e9
                seen[action] = _Event(when, str(told.get("exitCode", "")))
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
    """How often the kernel here has killed for want of memory, a container's or the machine's;
    None where it does not say."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return None
    counts = dict(line.split() for line in text.splitlines())
    return int(counts["oom_kill"]) if "oom_kill" in counts else None

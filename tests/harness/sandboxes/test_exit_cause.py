"""Why a container ended, from what the engine tells of it and the kernel counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

import pytest

from harness.sandboxes.exit_cause import ContainerExitCause, count_memory_kills


class Told:
    """What an engine tells, in order; the second time it is asked, all of it and ``late``."""

    def __init__(self, *events: Any, late: tuple[Any, ...] = ()) -> None:
        self.events, self.late, self.asked = events, late, 0

    def __call__(self, since: int, until: int) -> Told:
        assert since <= time.time() < until
        self.asked += 1
        return self

    def __iter__(self) -> Iterator[Any]:
        yield from self.events if self.asked == 1 else (*self.events, *self.late)

    def close(self) -> None: ...


def event(action: str, code: int | None = None, ago: float = 0.0) -> dict[str, Any]:
    told = {} if code is None else {"exitCode": str(code)}
    when = int((time.time() + 1.0 - ago) * 1e9)
    return {"Action": action, "timeNano": when, "Actor": {"Attributes": told}}


def explain(told: Told, moved: bool = False, guest: bool = False) -> tuple[str, ...] | None:
    counted = count() if moved else repeat(7)
    exit_cause = ContainerExitCause(told, guest, kills=lambda: next(counted))
    exit_cause.begin()
    return exit_cause.explain()


@pytest.mark.parametrize("guest", [False, True])
def test_a_shortage_of_memory_is_the_programs_doing(guest: bool) -> None:
    died = event("die", 137)
    assert explain(Told(event("oom"), died), guest=guest) == ("memory",)
    assert explain(Told(died, late=(event("oom"),)), guest=guest) == ("memory",)
    assert explain(Told(died), moved=True, guest=guest) == ("memory",)


@pytest.mark.parametrize("guest", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_a_kill_from_outside_is_not_even_where_it_is_told_late(guest: bool, moved: bool) -> None:
    died = event("die", 137)
    assert explain(Told(event("kill"), died), moved, guest) is None
    assert explain(Told(died, late=(event("kill"),)), moved, guest) is None


def test_a_kill_that_nobody_tells_of_came_from_outside_unless_programs_can_kill_pid_1() -> None:
    assert explain(Told(event("die", 137))) is None
    assert explain(Told(event("die", 137)), guest=True) == ()


def test_a_server_that_went_by_itself_was_brought_to_it() -> None:
    told = Told(event("die", 1))
    assert explain(told, moved=True) == ()
    assert told.asked == 1  # nothing more is waited for


def test_a_kill_before_the_last_program_started_is_still_one() -> None:
    assert explain(Told(event("kill", ago=1.1), event("die", 137, ago=1.05))) is None


def test_what_was_before_the_program_is_not_its_doing() -> None:
    assert explain(Told(event("oom", ago=60), event("die", 1))) == ()


def test_what_runs_on_or_is_not_told_of_is_a_failure_of_ours() -> None:
    assert explain(Told(), moved=True) is None


def test_a_guest_that_runs_on_has_programs_that_its_kernel_cannot_stop() -> None:
    for guest, running, limits in (
        (True, True, ("time",)),
        (True, False, None),
        (False, True, None),
    ):
        exit_cause = ContainerExitCause(Told(), guest, lambda running=running: running)
        assert exit_cause.explain() == limits


def test_the_kernel_counts_its_kills_for_want_of_memory() -> None:
    counted = count_memory_kills()
    assert counted is None or counted >= 0

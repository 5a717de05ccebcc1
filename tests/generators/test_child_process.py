"""Work on untrusted bytes ends at its limits, and nothing beside it waits or fails."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from generators import child_process
from generators.child_process import ChildLimits, run_in_child
from generators.errors import ChildLimitError

LIMITS = ChildLimits(seconds=1, memory=300_000_000)
ENDLESS = (re.search, "(a+)+$", "a" * 64 + "b")  # holds the interpreter's lock


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ENDLESS, "takes more than 1 s"),
        ((bytes, 10**10), "takes more than 300 MB of memory"),
        ((os.abort,), "crashes its process"),
    ],
    ids=["time", "memory", "crash"],
)
def test_a_limit_ends_the_call_and_the_next_one_runs(call: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ChildLimitError, match=said):
        run_in_child(LIMITS, *call).value()
    assert run_in_child(LIMITS, len, b"abc").value() == 3


def test_other_calls_go_on_while_one_does_not_end() -> None:
    with ThreadPoolExecutor(1) as pool:
        endless = pool.submit(run_in_child, LIMITS, *ENDLESS)
        done = 0
        while not endless.done():
            assert run_in_child(LIMITS, len, b"abc").value() == 3
            done += 1
        assert isinstance(endless.result().outcome, ChildLimitError)
        assert endless.result().seconds >= LIMITS.seconds / 2
    assert done > 10


def test_a_child_that_others_end_costs_nothing() -> None:
    run_in_child(LIMITS, len, b"")
    for child in child_process._idle:
        os.kill(child._process.pid, signal.SIGKILL)
    assert run_in_child(LIMITS, len, b"abc").value() == 3


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        run_in_child(LIMITS, int, "x").value()

"""The warm pool, with plain numbers for sandboxes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.sandboxes.pool import PoolClosed, WarmPool
from tests.progress import wait_until


class Workshop:
    """Makes numbers, slowly, and watches how."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.numbers = itertools.count()
        self.made: list[int] = []
        self.discarded: list[int] = []
        self.at_once = self.most_at_once = 0
        self.broken = False
        self.lock = threading.Lock()

    def make(self, kind: str) -> int:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        with self.lock:
            self.at_once -= 1
            if self.broken:
                raise OSError("the engine is away")
            self.made.append(next(self.numbers))
            return self.made[-1]


@contextmanager
def pool_of(
    workshop: Workshop, ahead: int = 0, at_once: int = 2, max_age: float = 60.0
) -> Iterator[WarmPool[str, int]]:
    pool = WarmPool(workshop.make, workshop.discarded.append, ahead, at_once, max_age)
    try:
        yield pool
    finally:
        pool.close()


def test_each_is_handed_out_once_and_the_rest_discarded() -> None:
    workshop = Workshop()
    with pool_of(workshop, ahead=3) as pool:
        taken = [pool.take("a") for _ in range(20)]
        wait_until(lambda: pool.waiting("a") == 3)
    assert len(set(taken)) == 20
    assert sorted(taken + workshop.discarded) == sorted(workshop.made)


def test_a_burst_does_not_make_more_at_once_than_allowed() -> None:
    workshop = Workshop(seconds=0.02)
    with pool_of(workshop, at_once=2) as pool:
        takers = [threading.Thread(target=pool.take, args=("a",)) for _ in range(12)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join(5)
    assert workshop.most_at_once == 2
    assert len(workshop.made) == 12


def test_an_error_reaches_a_taker_and_does_not_stay() -> None:
    workshop = Workshop()
    with pool_of(workshop, ahead=2) as pool:
        workshop.broken = True
        with pytest.raises(OSError, match="away"):
            pool.take("a")
        wait_until(lambda: pool.waiting("a") == 2)  # both kept ready have failed too
        workshop.broken = False
        assert pool.take("a") >= 0


def test_the_old_are_not_handed_out() -> None:
    workshop = Workshop()
    with pool_of(workshop, ahead=1, max_age=0.05) as pool:
        pool.warm("a")
        wait_until(lambda: pool.waiting("a") == 1)
        time.sleep(0.1)
        assert pool.take("a") != 0
        assert workshop.discarded[0] == 0


def test_closing_frees_those_who_wait() -> None:
    workshop = Workshop(seconds=0.3)
    ends: list[str] = []

    def take(pool: WarmPool[str, int]) -> None:
        try:
            pool.take("a")
            ends.append("taken")
        except PoolClosed:
            ends.append("closed")

    with pool_of(workshop, at_once=1) as pool:
        takers = [threading.Thread(target=take, args=(pool,)) for _ in range(4)]
        for taker in takers:
            taker.start()
        time.sleep(0.1)
    for taker in takers:
        taker.join(5)
    assert len(ends) == 4
    assert "closed" in ends
    assert len(workshop.made) == ends.count("taken") + len(workshop.discarded)
    with pytest.raises(PoolClosed):
        pool.take("a")


def test_of_another_kind_only_what_nobody_waits_for_is_shed() -> None:
    workshop = Workshop()
    with pool_of(workshop, ahead=2) as pool:
        pool.warm("a")
        wait_until(lambda: pool.waiting("a") == 2)
        assert not pool.shed("a"), "its own kind is what it wants"
        assert pool.shed("b")
        assert pool.shed("b")
        assert not pool.shed("b"), "two were kept ready"
        assert len(workshop.discarded) == 2
        assert pool.take("a") not in workshop.discarded

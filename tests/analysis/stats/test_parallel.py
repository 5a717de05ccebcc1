"""Chunks of work are all done, once each, and what fails is heard of."""

from __future__ import annotations

import os
import threading

import pytest

from analysis.stats.permutation import cores, in_chunks


@pytest.mark.parametrize("threads", ["1", "3"])
def test_every_row_is_worked_on_once(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    done = []
    in_chunks(lambda first, count: done.extend(range(first, first + count)), 103, 5)
    assert sorted(done) == list(range(103))
    in_chunks(lambda first, count: done.append(first), 0, 5)
    assert len(done) == 103


def test_chunks_are_worked_on_at_once(monkeypatch):
    """Two that wait for each other come through."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    both = threading.Barrier(2)
    in_chunks(lambda first, count: both.wait(60) if first < 2 else None, 8, 1)


def test_few_chunks_stay_in_the_callers_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    seen = set()
    in_chunks(lambda first, count: seen.add(threading.get_ident()), 7, 1)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_fails_is_raised(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)

    def fail(first, count):
        if first == 6:
            raise MemoryError("chunk 6")

    with pytest.raises(MemoryError, match="chunk 6"):
        in_chunks(fail, 20, 1)


def test_the_environment_says_how_many(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert cores() == 5
    own = len(os.sched_getaffinity(0))
    for said in "", "0", "4,2", "all":
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert cores() == own

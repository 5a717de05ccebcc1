"""The server's prompt caches follow the published rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.conformance.cache import LIFETIME, AutomaticCache, MarkedCache
from tests.conformance.conversation import Asked, Block
from tests.conformance.messages import Messages

TOKEN = 4  # bytes


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def asked(*blocks: Block, partition: str = "model", volatile: str = "") -> Asked:
    return Asked("model", "", (), blocks, partition=partition, volatile=volatile)


def text(tokens: int, name: str = "a", section: str = "messages", point: bool = False) -> Block:
    return Block(section, (name * TOKEN * tokens).encode(), point)


@pytest.mark.parametrize(
    ("before", "now", "cached"),
    [
        ((text(1500),), (text(1500),), 1408),  # 11 steps of 128
        ((text(1500),), (text(1500), text(400, "b")), 1408),
        ((text(1500), text(9)), (text(1500), text(400, "b")), 1408),
        ((text(1023),), (text(1023),), 0),
        ((text(1024),), (text(1024),), 1024),
        ((text(1500),), (text(1, "b"), text(1500)), 0),
    ],
)
def test_the_longest_prefix_in_whole_steps(
    before: tuple[Block, ...], now: tuple[Block, ...], cached: int
) -> None:
    cache = AutomaticCache(Clock())
    assert cache.take(asked(*before), 1024) == (0, 0)
    assert cache.take(asked(*now), 1024) == (cached, 0)


@pytest.mark.parametrize(("seconds", "cached"), [(LIFETIME, 1024), (LIFETIME + 1, 0)])
def test_a_prefix_lives_five_minutes_after_its_last_use(seconds: float, cached: int) -> None:
    clock = Clock()
    automatic, marked = AutomaticCache(clock), MarkedCache(clock)
    request = asked(text(1024, point=True))
    for _ in range(3):  # each use prolongs it
        automatic.take(request, 1024)
        marked.take(request, 1024)
        clock.now += LIFETIME
    clock.now += seconds - LIFETIME
    assert automatic.take(request, 1024)[0] == cached
    assert marked.take(request, 1024)[0] == cached


def test_another_key_is_another_cache() -> None:
    cache = AutomaticCache(Clock())
    cache.take(asked(text(2000), partition="one"), 1024)
    assert cache.take(asked(text(2000), partition="two"), 1024) == (0, 0)


def test_only_what_is_marked_is_stored() -> None:
    cache = MarkedCache(Clock())
    unmarked = asked(text(2000), text(100))
    assert cache.take(unmarked, 1024) == cache.take(unmarked, 1024) == (0, 0)
    marked = asked(text(2000, point=True), text(100))
    assert cache.take(marked, 1024) == (0, 2000)
    assert cache.take(marked, 1024) == (2000, 0)
    assert cache.take(asked(text(2000), text(100), text(50, point=True)), 1024) == (2000, 150)


@pytest.mark.parametrize(("between", "read"), [(19, 2000), (20, 0)])
def test_it_looks_back_over_twenty_blocks(between: int, read: int) -> None:
    """The mark's own block and 20 before it."""
    cache = MarkedCache(Clock())
    cache.take(asked(text(2000, point=True)), 1024)
    further = [text(1, "b") for _ in range(between)]
    assert cache.take(asked(text(2000), *further, text(1, "c", point=True)), 1024)[0] == read


def test_another_tool_choice_keeps_tools_and_system_but_not_messages() -> None:
    cache = MarkedCache(Clock())
    blocks = (text(1500, section="system", point=True), text(500, point=True))
    cache.take(asked(*blocks, volatile="auto"), 1024)
    assert cache.take(asked(*blocks, volatile="auto"), 1024) == (2000, 0)
    assert cache.take(asked(*blocks, volatile="none"), 1024) == (1500, 500)
    other = replace(blocks[0], data=b"x" * 6000)
    assert cache.take(asked(other, blocks[1], volatile="auto"), 1024) == (0, 2000)


@pytest.mark.parametrize(
    ("model", "minimum"),
    [("claude-opus-4-8", 1024), ("claude-opus-4-7", 2048), ("claude-haiku-4-5", 4096)],
)
def test_the_minimum_depends_on_the_model(model: str, minimum: int) -> None:
    assert Messages().minimum(model) == minimum
    cache = MarkedCache(Clock())
    for tokens, read in ((minimum - 1, 0), (minimum, minimum)):
        request = asked(text(tokens, str(tokens % 10), point=True))
        cache.take(request, minimum)
        assert cache.take(request, minimum)[0] == read

"""How the harness's tests write what a model says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from generators.task import Asset, Brief, Limits
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, Usage

SCHEMA = '{"properties":{"x":{"type":"number"}},"required":["x"],"type":"object"}'
ANSWER = 'So it is.\n<answer>\n{"x": 1}\n</answer>'
Turn = Reply | Exception | Callable[[ModelRequest], Reply]


@dataclass
class Playback:
    """A model that says what it is told to, and remembers what it was asked."""

    turns: Sequence[Turn]
    name: str = "playback"
    trusted: bool = True
    paid: bool = False
    asked: list[ModelRequest] = field(default_factory=list)

    def respond(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        turn = self.turns[len(self.asked) - 1]
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Reply) else turn(request)


def say(text: str, tokens: int | None = 1) -> Reply:
    return Reply(Message(Role.ASSISTANT, text), Usage(tokens, tokens), "v1")


def call(*calls: tuple[str, dict[str, object] | str]) -> Reply:
    """A turn of tool calls; arguments as an object, or as the raw text to send."""
    made = tuple(
        ToolCall(f"c{index}", name, given if isinstance(given, str) else json.dumps(given))
        for index, (name, given) in enumerate(calls)
    )
    return Reply(Message(Role.ASSISTANT, "", calls=made), Usage(1, 1), "v1")


def brief(*assets: Asset, limits: Limits | None = None) -> Brief:
    return Brief("Find x.", assets, SCHEMA, limits or Limits())


def ticks(step: float) -> Callable[[], float]:
    """A clock that moves on by ``step`` seconds each time somebody looks at it."""
    times: Iterator[float] = (step * number for number in count())
    return lambda: next(times)


def noon() -> str:
    return "2026-11-21T12:00:00Z"

"""What a request asks for and what a model says, the same for every wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image, with its size in pixels."""

    media_type: str
    data: bytes = field(repr=False)
    width: int = 0
    height: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. The server makes up an ``id`` if it is empty."""

    name: str
    arguments: Json
    id: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool call."""

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning that came back from the client."""

    signature: str


Part = Text | Picture | Call | Result | Thought


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the model or of its user."""

    by_model: bool
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the input as the cache sees it. ``point``: the input up to its end may be
    stored."""

    section: str  # "tools", "system" or "messages"
    data: bytes = field(repr=False)
    point: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that keeps the rules."""

    model: str
    system: str
    turns: tuple[Turn, ...]
    blocks: tuple[Block, ...] = field(repr=False)
    tools: tuple[str, ...] = ()
    may_call: bool = True  # false if the tool choice is "none"
    thinks: bool = False  # its reasoning is returned
    streams: bool = False
    partition: str = ""  # of the cache: what must be equal beside the input
    volatile: str = ""  # of the cache: what must be equal for messages to be read from it

    @property
    def results(self) -> tuple[str, ...]:
        """The tools' results so far."""
        return tuple(part.text for part in self._parts() if isinstance(part, Result))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The images so far."""
        return tuple(part for part in self._parts() if isinstance(part, Picture))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The model's calls so far."""
        return tuple(part for part in self._parts() if isinstance(part, Call))

    @property
    def thoughts(self) -> tuple[Thought, ...]:
        """The model's reasoning that came back."""
        return tuple(part for part in self._parts() if isinstance(part, Thought))

    @property
    def texts(self) -> tuple[str, ...]:
        """The user's texts."""
        parts = (part for turn in self.turns if not turn.by_model for part in turn.parts)
        return tuple(part.text for part in parts if isinstance(part, Text))

    def _parts(self) -> list[Part]:
        return [part for turn in self.turns for part in turn.parts]


@dataclass(frozen=True, slots=True)
class Said:
    """A reply. ``finish`` is ``stop``, ``length`` (cut off) or ``refusal``."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thought: str = ""
    finish: str = "stop"


@dataclass(frozen=True, slots=True)
class Fault:
    """Anything else than a good reply: see ``faults``. ``said`` is the reply that it spoils."""

    kind: str
    said: Said | None = None
    wait: float = 7.0  # seconds that a rate limit asks for


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of a reply: the whole input, of it read from the cache and written to it."""

    input: int
    cached: int
    written: int
    output: int
    reasoning: int


class Refused(Exception):  # noqa: N818
    """A request that breaks a rule: its kind, and the provider's own words.

    ``kind`` is ``invalid``, ``too_long``, ``too_large``, ``auth`` or ``unknown_path``."""

    def __init__(self, message: str, kind: str = "invalid") -> None:
        super().__init__(message)
        self.message, self.kind = message, kind


Kinds = Mapping[str, type | tuple[type, ...]]
NUMBER = (int, float)


_NAMED = {kind.__name__: kind for kind in (str, int, float, bool, list, dict, type(None))}


def shape(named: Mapping[str, str]) -> dict[str, Any]:
    """Return the kinds of fields by the names of their types, such as ``str|list``."""
    kinds = {
        name: tuple(_NAMED[word] for word in words.split("|")) for name, words in named.items()
    }
    return {name: kind if len(kind) > 1 else kind[0] for name, kind in kinds.items()}


def fields(value: object, where: str, required: Kinds, optional: Kinds | None = None) -> Json:
    """Return a JSON object that has these fields and no others. Raises Refused."""
    known = {**required, **(optional or {})}
    if not isinstance(value, dict):
        raise Refused(f"{where}: Input should be a valid dictionary")
    for name, each in value.items():
        if name not in known:
            raise Refused(f"{where}.{name}: Extra inputs are not permitted")
        kind = known[name]
        flag = isinstance(each, bool)
        if not isinstance(each, kind) or (flag and kind in (int, NUMBER)):
            raise Refused(f"{where}.{name}: Input has another type than the schema's")
    for name in required:
        if name not in value:
            raise Refused(f"{where}.{name}: Field required")
    return value


def tag(value: object, where: str, name: str = "type") -> str:
    """The text that names the variant of a JSON object. Raises Refused."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise Refused(f"{where}.{name}: Field required")
    return found

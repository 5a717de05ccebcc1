"""The conversation with a model, and the Protocol that every model keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from generators.seed import Seed


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for. ``arguments`` is the text it sent: untrusted."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``calls`` on an assistant's, ``call_id`` on a tool's answer."""

    role: Role
    text: str
    images: tuple[Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""
    native: str = ""  # JSON of its parts, signed by the provider, which wants them back so


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call as it was carried out when the model was told of it. ``diverged`` is what it
    answered when it was carried out again to go on from there, where that was something else."""

    call_id: str
    name: str
    result: Message
    seconds: float
    exit_code: int | None = None
    limits: tuple[str, ...] = ()
    diverged: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it. ``parameters`` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens; None where the provider does not say. ``cached_tokens`` are those of the input
    that it says it had in its cache; a sum of them is what was told."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        def total(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        return Usage(
            total(self.input_tokens, other.input_tokens),
            total(self.output_tokens, other.output_tokens),
            _told(self.cached_tokens, other.cached_tokens),
        )


def _told(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


@dataclass(frozen=True, slots=True)
class Try:
    """A request that failed: by which class, with which status of HTTP if any, and what was
    received, as it was before anybody parsed it."""

    kind: str
    status: int | None
    seconds: float
    raw: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn's request. ``seed`` is the model's own stream at this turn: scripted agents
    draw from it, servers may be given it. ``keep`` is told of each try that fails, at once.
    ``schema`` is a JSON Schema that a server is to hold the reply's text to, "" for none."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]  # empty on a final, tool-free turn
    seed: Seed
    keep: Callable[[Try], None] | None = field(default=None, repr=False, compare=False)
    schema: str = ""


# What opens an exposure probe: by it built-in agents know that they are asked from memory.
PROBE_MARK = "You are asked what you remember of one instance of a benchmark."
# In the system message of a task that asks for no answer block.
AS_ASKED = "Your final answer is taken word for word as your response to the task"
OVERFLOW = "context_length"  # the class of a request that is too long for the model


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. ``raw`` is the provider's response as it was received, ``heard`` what the
    tools had answered just before, kept beside a stored reply for who goes on from it."""

    message: Message
    usage: Usage
    served_version: str
    finish: str = "stop"
    raw: bytes = field(default=b"", repr=False)
    retries: int = 0  # requests that failed before this reply came
    failed: tuple[str, ...] = ()  # by which class each of them did
    heard: tuple[ToolUse, ...] = field(default=(), repr=False)


class Model(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def trusted(self) -> bool:
        """Built in, so that it may run in the local sandbox. No other model ever is."""
        ...

    @property
    def paid(self) -> bool:
        """Each reply costs; it is stored before it is acted on."""
        ...

    def respond(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises AttemptFailed(PROVIDER, …)."""
        ...


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A text of which a model is asked how likely it finds each token. ``way`` is how its server
    is asked (``harness.models.token_logprobs``), ``top`` how many rivals of each token it is
    to report."""

    text: str = field(repr=False)
    seed: Seed
    start: int = 0  # the character from which on it counts
    way: str = ""
    top: int = 0
    keep: Callable[[Try], None] | None = field(default=None, repr=False, compare=False)


@runtime_checkable
class LogprobModel(Protocol):
    """A model that may tell how likely it finds a given text."""

    def text_logprobs(self, request: TextRequest) -> Reply:
        """One reply, whose ``raw`` ``harness.models.token_logprobs`` reads.

        Raises AttemptFailed(PROVIDER, …)."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A model that holds something open: connections, a server of its own."""

    def close(self) -> None: ...


def close_model(model: object) -> None:
    """Close what a model holds open, where it holds anything."""
    if isinstance(model, Closable):
        model.close()


class ModelWrapper:
    """A model in another form: all of it but ``respond`` is that of the model inside."""

    __slots__ = ()

    model: Model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def trusted(self) -> bool:
        return self.model.trusted

    @property
    def paid(self) -> bool:
        return self.model.paid

    def close(self) -> None:
        close_model(self.model)


def logprob_model(model: Model) -> LogprobModel | None:
    """Who tells how likely a text is: the model itself, or the one inside of it; None where it
    has no such thing."""
    while isinstance(model, ModelWrapper):
        model = model.model
    return model if isinstance(model, LogprobModel) else None

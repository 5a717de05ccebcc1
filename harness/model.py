"""Messages of a conversation with a model, and the Protocol of every model."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import ascii_letters, whitespace
from typing import Any, Literal, Protocol, runtime_checkable

from generators.seed import Seed

_PLAIN = (ascii_letters + whitespace).encode()


class Role(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message."""

    media_type: str
    data: bytes

    @property
    def url(self) -> str:
        """The image itself as an address."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requested. ``arguments`` is the text it sent: untrusted."""

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
    native: str = ""  # JSON of its parts, signed by the provider, which wants them unchanged


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call with the result that the model saw. ``diverged`` is the result of carrying it
    out again when an attempt resumed, if that was different."""

    call_id: str
    name: str
    result: Message
    seconds: float
    exit_code: int | None = None
    limits: tuple[str, ...] = ()
    diverged: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's specification for models. ``parameters`` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; None if the provider does not report them. ``cached_tokens`` are those of the
    input that it read from its cache, ``cache_write_tokens`` those that it wrote there, and
    ``reasoning_tokens`` those of the output that are reasoning; a sum of these three is over the
    reported ones."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_bound: int | None = None  # of an unknown output: the largest reading of the counts

    @property
    def tokens(self) -> int:
        """Tokens of input and output, as far as they are known."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    @property
    def bounded(self) -> Usage:
        """With the bound in the place of an unknown output."""
        known = self.output_tokens is not None
        return self if known else replace(self, output_tokens=self.output_bound)

    def __add__(self, other: Usage) -> Usage:
        def total(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        def reported(a: int | None, b: int | None) -> int | None:
            return None if a is None and b is None else (a or 0) + (b or 0)

        return Usage(
            total(self.input_tokens, other.input_tokens),
            total(self.output_tokens, other.output_tokens),
            reported(self.cached_tokens, other.cached_tokens),
            reported(self.cache_write_tokens, other.cache_write_tokens),
            reported(self.reasoning_tokens, other.reasoning_tokens),
        )


@dataclass(frozen=True, slots=True)
class Try:
    """A request that failed: its error class, the HTTP status if any, its duration, the response's
    bytes, and the seconds that the server asked its client to wait, if it did."""

    kind: str
    status: int | None
    seconds: float
    raw: bytes = field(default=b"", repr=False)
    wait: float | None = None
    usage: Usage = Usage(0, 0)  # that it was billed for, as far as its response states that


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn's request. ``seed`` is the model's own stream at this turn: scripted agents
    draw from it, servers may be given it. ``admit`` is called before each try to send it: it may
    wait, and its error is that of the call. ``keep`` is called with each failed try, at once.
    ``schema`` is a JSON Schema that the server enforces on the reply's text, "" for none.
    ``conversation`` is a name that the requests of one conversation share, each of which extends
    the one before, so that a provider's cache serves them; "" for a request on its own."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    seed: Seed
    keep: Callable[[Try], None] | None = field(default=None, repr=False, compare=False)
    admit: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    schema: str = ""
    conversation: str = ""
    # "none" closes the tools but keeps their specifications, which providers ask for as long as the
    # conversation has calls, and which keeps the prefix that they cache.
    tool_choice: Literal["auto", "none"] = "auto"

    @property
    def may_call(self) -> bool:
        """True if there are tools and the model may call them."""
        return bool(self.tools) and self.tool_choice != "none"


# Opens a closed-book probe; built-in agents recognise the probe by it.
PROBE_MARK = "You are asked what you remember of one instance of a benchmark."
# Opens a question for the marker of a title.
MARKER_MARK = f"{PROBE_MARK} You are given its title alone."
# In the system message of a task that asks for no answer block.
AS_ASKED = "Your final answer is taken word for word as your response to the task"
OVERFLOW = "context_length"  # error class of a request that is too long for the model
REFUSED = "bad_request"  # of one that a provider refuses for any other thing in it


@dataclass(frozen=True, slots=True)
class Omission:
    """What a request left out of its conversation, by number: the oldest pictures and the oldest
    tool results, each with a marker in its place."""

    pictures: int = 0
    results: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What came just before a reply, beyond the earlier turns: stored with it, so that an attempt
    that resumes from it has the same conversation."""

    uses: tuple[ToolUse, ...] = field(default=(), repr=False)  # of the last turn's tools
    prompt: str = ""  # the harness's message
    closed: str = ""  # the limit that closed the tools, "" while they are open
    left_out: Omission | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. ``raw`` is the provider's response as received. ``response_id`` is the
    provider's name for the response, ``fingerprint`` that of the configuration that served it; ""
    if it reports none."""

    message: Message
    usage: Usage
    served_version: str
    finish: str = "stop"
    raw: bytes = field(default=b"", repr=False)
    retries: int = 0  # requests that failed before this reply came
    failed: tuple[str, ...] = ()  # their error classes
    response_id: str = ""
    fingerprint: str = ""
    reading: str = ""  # its protocol, HTTP status and the digest of what was read of ``raw``
    dropped_calls: int = 0  # tool calls beyond the cap of one turn, which the message lacks
    asked: Asked | None = None  # of a stored reply


@runtime_checkable
class Model(Protocol):
    """A model that answers one request at a time."""

    @property
    def name(self) -> str:
        """Its name in the study."""

    @property
    def trusted(self) -> bool:
        """True if it is built in, so that it may run in the local sandbox."""

    @property
    def paid(self) -> bool:
        """True if each reply costs money; then it is stored before it is acted on."""

    def respond(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises AttemptFailed(PROVIDER, …)."""


def close_model(model: object) -> None:
    """Close what a model holds open, if anything: connections, a server of its own."""
    if (close := getattr(model, "close", None)) is not None:
        close()


class BuiltInModel:
    """Base of built-in models: they may run in the local sandbox, and cost nothing."""

    __slots__ = ()

    trusted = True
    paid = False


class ModelWrapper:
    """A model around another one: all but ``respond`` is that of the inner model."""

    __slots__ = ()

    model: Model

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.model.name

    @property
    def trusted(self) -> bool:
        """As the inner model."""
        return self.model.trusted

    @property
    def paid(self) -> bool:
        """As the inner model."""
        return self.model.paid

    def close(self) -> None:
        """Close the inner model."""
        close_model(self.model)


def estimate_text(text: str) -> int:
    """Tokens of a text, on the safe side."""
    data = text.encode()
    other = len(data.translate(None, _PLAIN))
    return math.ceil((len(data) - other) / 4 + other / 2)


def clean_text(text: str) -> str:
    """Return a text without lone surrogates, which JSON can smuggle in and UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode()

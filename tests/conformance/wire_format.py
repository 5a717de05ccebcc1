"""What every wire format has: how it reads a request, and how it writes a reply or an error."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tests.conformance.cache import AutomaticCache, PromptCache
from tests.conformance.conversation import Asked, Call, Json, Said, Tokens
from tests.conformance.rules import MB
from tests.conformance.transport import Answer, Incoming

SECRET = "SECRET PROMPT quoted back"  # error messages of providers quote what they were sent


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply on its way out."""

    said: Said
    tokens: Tokens
    model: str  # the version served
    id: str  # of the response, without the provider's prefix


@dataclass
class Memory:
    """What a server remembers of its replies: the reasoning that came before a call, by the call's
    id."""

    thoughts: MutableMapping[str, str] = field(default_factory=dict)


class WireFormat(ABC):
    """One provider's wire format."""

    name: ClassVar[str]
    paths: ClassVar[re.Pattern[str]]  # a group named ``model`` if the path has it
    cache: ClassVar[type[PromptCache]] = AutomaticCache
    body_limit: ClassVar[int] = 50 * MB
    key_headers: ClassVar[tuple[str, ...]] = ("authorization",)
    errors: ClassVar[Mapping[str, tuple[int, str]]]  # kind → status and the provider's class

    @abstractmethod
    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        """Check a request against the provider's rules. Raises Refused."""

    @abstractmethod
    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        """The body of a reply."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        """The provider's form of an error. ``wait``: seconds until the next try."""

    @abstractmethod
    def empty(self, body: Json) -> Json:
        """The reply without any content."""

    @abstractmethod
    def overflow(self, tokens: int, context: int) -> str:
        """The provider's words for a conversation that is too long."""

    @abstractmethod
    def filtered(self, body: Json) -> Json:
        """The reply ``body`` as it is if the provider's content filter stopped it."""

    def minimum(self, model: str) -> int:
        """The fewest tokens that the cache stores."""
        return 1024

    def fail(self, kind: str, message: str = SECRET, wait: float | None = None) -> Answer:
        """An error by its kind, as the provider puts it."""
        status, name = self.errors[kind]
        return self.error(status, name, message, wait)

    def pack(self, asked: Asked, body: Json) -> Answer:
        """The whole response; a stream of events if that was asked for."""
        return Answer(body)

    def keys(self, headers: Mapping[str, str]) -> list[str]:
        """The keys that a request carries."""
        carried = [headers[name] for name in self.key_headers if headers.get(name)]
        return [each.removeprefix("Bearer ") for each in carried]


def with_ids(said: Said, prefix: str, request: bytes) -> Said:
    """The reply with an id for each call that has none, from the request's digest."""
    name = request.hex()[:20]
    calls = (
        call if call.id else replace(call, id=f"{prefix}{name}{index}")
        for index, call in enumerate(said.calls)
    )
    return replace(said, calls=tuple(calls))


def arguments(call: Call) -> str:
    """A call's arguments as JSON text."""
    return json.dumps(call.arguments)


def seconds(wait: float | None, name: str = "retry-after") -> tuple[tuple[str, str], ...]:
    """The header that asks for a pause."""
    return () if wait is None else ((name, f"{wait:g}"),)

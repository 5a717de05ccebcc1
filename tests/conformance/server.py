"""A server that speaks every wire format, keeps each provider's rules, and answers with a model
that is given as a function. It remembers what broke a rule."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.conformance.cache import PromptCache
from tests.conformance.chat import Chat
from tests.conformance.conversation import Asked, Fault, Json, Refused, Said, Tokens
from tests.conformance.converse import Converse
from tests.conformance.faults import ERRORS, Schedule, spoil, spoil_form, spoil_words
from tests.conformance.gemini import Gemini
from tests.conformance.messages import Messages
from tests.conformance.responses import Responses
from tests.conformance.rules import BYTES_PER_TOKEN, token_count
from tests.conformance.transport import Answer, Incoming, listening
from tests.conformance.wire_format import Memory, Reply, WireFormat, with_ids

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY = "sk-do-not-tell"
USER = "AKIDTEST"  # whose signature Bedrock takes instead of a key
FORMATS: dict[str, WireFormat] = {
    each.name: each for each in (Chat(), Responses(), Messages(), Gemini(), Converse())
}
PREFIXES = {"messages": "toolu_", "converse": "tooluse_"}
Model = Callable[[Asked], Said | Fault | Answer]


@dataclass
class Server:
    """The running server. ``requests`` has the bodies that kept the rules, ``asked`` what they
    mean, ``refused`` the rules that were broken."""

    model: Model
    context: int = 1_000_000  # tokens
    schedule: Schedule | None = None
    clock: Callable[[], float] = time.monotonic
    slow: float = 1.5  # seconds that a slow response takes
    records: bool = True
    url: str = ""
    received: list[Incoming] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    tokens: list[Tokens] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._caches: dict[str, PromptCache] = {
            name: each.cache(self.clock) for name, each in FORMATS.items()
        }
        self._not_before: dict[bytes, float] = {}  # by digest of a request

    def respond(self, incoming: Incoming) -> Answer:
        """Answer one request."""
        format_ = next((f for f in FORMATS.values() if f.paths.fullmatch(incoming.path)), None)
        if format_ is None:
            self.refused.append(f"a request to {incoming.path}")
            return Answer({"error": {"message": "Not found", "code": 404}}, 404)
        keys = format_.keys(incoming.headers)
        self.keys += keys
        answer = self._answer(incoming, format_, keys)
        if self.records:
            self.received.append(incoming)
            self.answers.append(answer)
        return answer

    def _answer(self, incoming: Incoming, format_: WireFormat, keys: list[str]) -> Answer:
        if not {KEY, USER} & set(keys):
            return format_.fail("auth")
        if len(incoming.body) > format_.body_limit:
            return self._refuse(format_, Refused("Request exceeds the maximum size", "too_large"))
        try:
            body = json.loads(incoming.body)
            asked = format_.read(incoming, body, self.memory)
            if not all(_TOOL_NAME.fullmatch(call.name) for call in asked.calls):
                raise Refused("a call of a name that no tool may have")
        except ValueError:
            return self._refuse(format_, Refused("We could not parse the JSON body"))
        except Refused as refused:
            return self._refuse(format_, refused)
        if self.records:
            self.requests.append(body)
            self.asked.append(asked)
        self._check_pause(format_, incoming)
        size = token_count(asked.blocks)
        if size > self.context:
            return format_.fail("too_long", format_.overflow(size, self.context))
        return self._reply(incoming, format_, asked, size)

    def _refuse(self, format_: WireFormat, refused: Refused) -> Answer:
        self.refused.append(f"{format_.name}: {refused.message}")
        return format_.fail(refused.kind, refused.message)

    def _check_pause(self, format_: WireFormat, incoming: Incoming) -> None:
        until = self._not_before.pop(incoming.digest, None)
        if until is not None and self.clock() < until:
            early = until - self.clock()
            self.refused.append(f"{format_.name}: came back {early:.2f} s before Retry-After")

    def _reply(self, incoming: Incoming, format_: WireFormat, asked: Asked, size: int) -> Answer:
        made = self.model(asked)
        if isinstance(made, Answer):
            return made
        fault = made if isinstance(made, Fault) else Fault("", made)
        drawn = self.schedule and self.schedule.draw(asked.model, incoming.digest)
        if self.schedule is not None and drawn:
            fault = Fault(drawn, fault.said, self.schedule.wait)
        if fault.kind in format_.errors:
            wait = fault.wait if fault.kind == "rate_limit" else None
            if wait is not None:
                self._not_before[incoming.digest] = self.clock() + wait
            return format_.fail(fault.kind, wait=wait)
        body = self._write(incoming, format_, asked, size, spoil_words(fault))
        if fault.kind == "filtered":
            return format_.pack(asked, format_.filtered(body))
        answer = format_.pack(asked, spoil_form(fault, format_, body))
        return spoil(fault, answer, format_, self.slow)

    def _write(
        self, incoming: Incoming, format_: WireFormat, asked: Asked, size: int, said: Said
    ) -> Json:
        prefix = PREFIXES.get(format_.name, "call_")
        said = with_ids(said, prefix, incoming.digest)
        minimum = format_.minimum(asked.model)
        cached, written = self._caches[format_.name].take(asked, minimum)
        thought = -(-len(said.thought) // BYTES_PER_TOKEN)
        output = thought + 1 + len(f"{said.text}{said.calls}") // BYTES_PER_TOKEN
        tokens = Tokens(size, cached, written, output, thought)
        if self.records:
            self.tokens.append(tokens)
        name = incoming.digest.hex()[:24]
        reply = Reply(said, tokens, f"{asked.model}-2026-11-01", name)
        return format_.write(asked, reply, self.memory)


@contextmanager
def serving(model: Model, **settings: object) -> Iterator[Server]:
    """A running server with this model; ``settings`` are those of Server."""
    server = Server(model, **settings)  # type: ignore[arg-type]  # checked by Server
    with listening(server.respond) as url:
        server.url = url
        yield server


__all__ = ["ERRORS", "FORMATS", "KEY", "USER", "Server", "serving"]

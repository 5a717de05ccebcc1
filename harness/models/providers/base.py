"""A model behind a provider's API, through pydantic-ai: what all providers have in common.

One client for a model, on an event loop of its own, serves the threads of a worker. The SDK's
retries are off: retries are decided and counted here, and the bytes of every response are stored
before they are parsed. The key is used for requests only and is in no record, message or error.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from harness.errors import AttemptFailed, Boundary
from harness.model import (
    REFUSED,
    Message,
    ModelRequest,
    Reply,
    Role,
    ToolCall,
    Try,
    Usage,
    clean_text,
)
from harness.models.providers.bodies import Expected, Reading, digest_reading
from harness.models.providers.retry import RECITATION, ProviderError, classify, pause, try_again
from harness.models.providers.transport import RECEIVED, Received
from harness.models.providers.verdict import BAD_CALL, REFUSAL
from harness.models.settings import ServedSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Chat

T = TypeVar("T")
logger = logging.getLogger(__name__)
# Failures of one request, and seconds from first to last, that show it is at fault, not the server.
_RECURS, _RECURS_SECONDS = 3, 60.0
_MOST_FAILING = 10_000  # requests that are remembered


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of a provider, and how it is closed."""

    chat: Chat
    close: Callable[[], Coroutine[Any, Any, Any]]


class ProviderModel(ABC):
    """A model behind a provider's API. Each provider's module has its connection and settings."""

    libraries: ClassVar[tuple[str, ...]]  # needed beside pydantic-ai
    protocol = "chat"  # of its replies, if its settings name none
    extra: ClassVar[str] = ""  # extra of the package with them, if not named like the provider
    settings: ServedSettings
    trusted = False  # its programs are untrusted
    paid = True  # each reply costs

    def __init__(
        self,
        name: str,
        settings: ServedSettings,
        api_key: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.settings = settings
        self.protocol = str(getattr(settings, "protocol", self.protocol))
        # By Chat Completions reasoning goes back under a field of messages, if the settings name
        # one; else in the provider's own signed form.
        self.native_replay = self.protocol != "chat"
        self.reasoning_field: str | None = getattr(settings, "reasoning_field", None)
        self._version = settings.model
        self._base_url = settings.base_url or ""
        self._api_key = api_key
        self._sleep = sleep
        self._lock = threading.Lock()
        self._answered = 0.0  # when a request last had a reply
        self._failing: dict[str, list[float]] = {}  # times of failures, by a request's digest

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._version!r}, {self._base_url!r})"

    @abstractmethod
    async def _connect(self) -> Connection:
        """A client with its own retries off, which keeps the bytes that it receives."""

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        """The parameters of a request that were set, as pydantic-ai's settings."""
        given = {
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "max_tokens": self.settings.max_tokens,
            "thinking": self.settings.reasoning_effort,
            "tool_choice": "none" if request.tools and not request.may_call else None,
        }
        if getattr(self.settings, "send_seed", False):
            given["seed"] = request.seed.child("server").rng().integer(0, 2**31 - 1)
        return {name: value for name, value in given.items() if value is not None}

    def _marked(self, messages: list[Any], request: ModelRequest) -> list[Any]:
        """The messages as pydantic-ai has them, with marks for a cache that no setting makes."""
        return messages

    def _fingerprint(self, body: bytes) -> str:
        """The server's name for the configuration that made a reply; "" if it reports none."""
        return ""

    def respond(self, request: ModelRequest) -> Reply:
        """Return one reply. A temporary failure is retried after a pause with jitter from the
        request's seed. A failure that is the model's own is a reply of its own: what was said
        decides it, so the loss of such attempts would not be random. Raises
        AttemptFailed(PROVIDER, class)."""
        failed: list[str] = []
        while True:
            begun = time.monotonic()
            try:
                with self._lock:  # before its turn: a first connection takes seconds
                    client = self._client_thread
                if request.admit is not None:
                    request.admit()
                begun = time.monotonic()
                reply = client.run(self._try(client.connection.chat, request))
                self._answered = time.monotonic()
                return replace(reply, retries=len(failed), failed=tuple(failed))
            except ProviderError as error:
                failed.append(error.kind)
                seconds = round(time.monotonic() - begun, 4)
                last = not try_again(failed, self.settings.retries, error.wait)
                own = (last and error.kind == RECITATION) or self._recurs(request, error)
                if request.keep is not None:
                    usage = Usage(0, 0) if own else error.usage.bounded  # else it is the reply's
                    kind, status, raw, asked = error.kind, error.status, error.raw, error.wait
                    request.keep(Try(kind, status, seconds, raw=raw, wait=asked, usage=usage))
                if own:
                    reply = self._own_reply(request, error)
                    return replace(reply, retries=len(failed), failed=tuple(failed))
                if last:
                    raise AttemptFailed(Boundary.PROVIDER, error.kind, error.detail) from None
                wait, first = error.wait, self.settings.backoff_seconds
            wait = pause(first, len(failed) - 1, wait, request.seed)
            logger.warning("model %s: %s, retry in %.1f s", self.name, failed[-1], wait)
            self._sleep(wait)

    def close(self) -> None:
        """Close the connections. The next request opens them again."""
        with self._lock:
            client = self.__dict__.pop("_client_thread", None)
        if client is not None:
            client.close()

    async def _try(self, chat: Any, request: ModelRequest) -> Reply:
        """Return the reply to one request. Raises ProviderError with the response that came."""
        context = getattr(self.settings, "context", None)
        received = Received(Expected(self.protocol, request, context))
        RECEIVED.set(received)
        try:
            reply = await self._exchange(request, chat, received)
            raw, reading = self._stored(received)
            return replace(reply, raw=reply.raw or raw, reading=reading)
        except ProviderError as error:
            failed = error
        except Exception as error:  # the SDK raises many kinds on untrusted bytes
            failed = received.failed or classify(error, received.body is not None)
            failed.usage = received.reading.usage if received.reading else failed.usage
        failed.raw, failed.reading = self._stored(received)
        failed.wait = failed.wait if received.wait is None else received.wait
        if failed.kind in (REFUSAL, BAD_CALL):
            return self._own_reply(request, failed)
        raise failed from None

    def _own_reply(self, request: ModelRequest, error: ProviderError) -> Reply:
        """The reply that a failure of the model's own stands for: its refusal, or a call that its
        server could not parse, which the tools answer as any bad call."""
        message = Message(Role.ASSISTANT, clean_text(error.text))
        finish = REFUSAL if error.kind in (REFUSAL, RECITATION) else BAD_CALL
        if finish == BAD_CALL and request.may_call:
            names = [tool.name for tool in request.tools if tool.name in message.text]
            name = [*names, request.tools[0].name][0]
            call = ToolCall(f"unparsed_{len(request.messages)}", name, message.text)
            message = replace(message, text="", calls=(call,))
        reply = Reply(message, error.usage, self._version, finish, error.raw)
        return replace(reply, reading=error.reading)

    def _recurs(self, request: ModelRequest, error: ProviderError) -> bool:
        """True if the server fails at what the model wrote: at the same request of a conversation
        again and again, while it answered others."""
        messages = request.messages
        failures = error.kind in ("overload", REFUSED) and error.status in (400, 500)
        if not failures or all(message.role is not Role.ASSISTANT for message in messages):
            return False
        if len(self._failing) >= _MOST_FAILING:
            self._failing.clear()
        digest = hashlib.sha256(repr(messages).encode()).hexdigest()
        times = self._failing.setdefault(digest, [])
        times.append(time.monotonic())
        long = times[-1] - times[0] >= _RECURS_SECONDS
        return len(times) >= _RECURS and long and self._answered > times[0]

    @cached_property
    def _client_thread(self) -> _ClientThread:
        return _ClientThread(self._version, self._connect)

    async def _exchange(self, request: ModelRequest, chat: Chat, received: Received) -> Reply:
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters

        from harness.models.providers import messages

        field = "" if self.native_replay else self.reasoning_field or ""
        replay = messages.Replay(chat.system, self.native_replay, field)
        sent = list(messages.to_provider_messages(request.messages, replay))
        async with asyncio.timeout(self.settings.seconds):
            response = await model_request(
                chat,
                self._marked(sent, request),
                model_settings=self._settings(request),  # type: ignore[arg-type]  # a dict of what each provider's settings have
                model_request_parameters=ModelRequestParameters(
                    function_tools=[messages.tool_definition(spec) for spec in request.tools],
                    **_shape(request.schema),
                ),
                instrument=False,
            )
        reading = received.reading or Reading(b"")
        reply = messages.reply_from_response(response, reading, self._version, replay)
        return replace(reply, fingerprint=clean_text(self._fingerprint(received.body or b"")))

    def _stored(self, received: Received) -> tuple[bytes, str]:
        """The response as received, without our key if the server quotes it, and the digest of what
        is read of it."""
        raw, status = received.body or b"", received.status
        raw = raw.replace(self._api_key.encode(), b"[key]") if len(self._api_key) > 7 else raw
        asked = received.expected.request is not None and status
        return raw, digest_reading(self.protocol, status, raw) if asked else ""


class _ClientThread:
    """Connection of one model, and the thread of the event loop that it runs on."""

    def __init__(
        self, version: str, connect: Callable[[], Coroutine[Any, Any, Connection]]
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"model {version}", daemon=True
        )
        self._thread.start()
        self.connection = self.run(connect())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self.run(self.connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _shape(schema: str) -> dict[str, Any]:
    """The request parameters that make the server enforce a JSON Schema on the reply."""
    from pydantic_ai.output import OutputObjectDefinition

    if not schema:
        return {}
    shape = OutputObjectDefinition(json_schema=json.loads(schema), name="reply", strict=True)
    return {"output_mode": "native", "output_object": shape, "allow_text_output": True}

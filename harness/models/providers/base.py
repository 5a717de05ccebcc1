"""A model behind a provider's API, through pydantic-ai: what all providers have in common.

One client to a model, on an event loop of its own, serves the threads of a worker. The SDK's
retries are off: what is tried again is decided and counted here, and the bytes of every try are
taken before they are parsed and handed on to be kept. The key is used for the requests and stands
in no record, message or error.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from generators.seed import Seed
from harness.errors import AttemptFailed, Boundary
from harness.model import ModelRequest, Reply, Try
from harness.models.providers.messages import Replay, heard_reply, spoken_messages, tool_definition
from harness.models.providers.retry import ProviderError, classify, pause, try_again

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as Chat

T = TypeVar("T")

# The bytes of the response that the current request received, before they are parsed.
_RECEIVED: ContextVar[list[bytes]] = ContextVar("_RECEIVED")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is asked. None leaves the choice to the server."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning_field: str = ""  # OpenAI: of its messages; if given, reasoning goes back under it
    send_seed: bool = False  # give the server a seed for each turn, where it takes one
    seconds: float = 300.0  # one request may take
    retries: int = 3
    backoff_seconds: float = 1.0  # before the first retry; doubled for each further one


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of a provider, and how it is closed."""

    chat: Chat
    close: Callable[[], Awaitable[Any]]


class ProviderModel(ABC):
    """A model that a provider serves. Each provider's module says how to connect and to ask."""

    native_replay = True  # what the model thought goes back in the provider's own signed form
    region = ""  # where a provider has such

    def __init__(
        self,
        name: str,
        version: str,
        base_url: str,
        api_key: str,
        sampling: Sampling | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._version = version
        self._base_url = base_url
        self._api_key = api_key
        self._sampling = sampling or Sampling()
        self._sleep = sleep
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._version!r}, {self._base_url!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def trusted(self) -> bool:
        return False

    @property
    def paid(self) -> bool:
        return True

    @abstractmethod
    async def _connect(self) -> Connection:
        """A client with its own retries off, which keeps the bytes that it receives."""

    def _settings(self, seed: Seed) -> dict[str, Any]:
        """What is asked for, as pydantic-ai's settings; nothing that was not set."""
        sampling = self._sampling
        given = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "thinking": sampling.reasoning_effort,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        return {**settings, "request_timeout": sampling.seconds}

    def respond(self, request: ModelRequest) -> Reply:
        """One reply. A failure that may pass is tried again, after a pause with jitter from the
        request's seed; raises AttemptFailed(PROVIDER, class)."""
        return self._patiently(lambda: self._request(request), request.seed, request.keep)

    def _patiently(
        self, ask: Callable[[], Reply], seed: Seed, keep: Callable[[Try], None] | None
    ) -> Reply:
        failed: list[str] = []
        while True:
            begun = time.monotonic()
            try:
                return replace(ask(), retries=len(failed), failed=tuple(failed))
            except ProviderError as error:
                failed.append(error.kind)
                seconds = round(time.monotonic() - begun, 4)
                if keep is not None:
                    keep(Try(error.kind, error.status, seconds, error.raw))
                if not try_again(failed, self._sampling.retries):
                    raise AttemptFailed(Boundary.PROVIDER, error.kind, error.detail) from None
                wait, first = error.wait, self._sampling.backoff_seconds
            self._sleep(pause(first, len(failed) - 1, wait, seed))

    def close(self) -> None:
        """Close the connections. The next request opens them again."""
        with self._lock:
            line = self.__dict__.pop("_line", None)
        if line is not None:
            line.close()

    def _request(self, request: ModelRequest) -> Reply:
        return self._run(lambda line: self._exchange(line.connection.chat, request))

    def _run(self, work: Callable[[_Line], Coroutine[Any, Any, T]]) -> T:
        with self._lock:
            line = self._line
        return line.run(work(line))

    @contextmanager
    def _receiving(self) -> Iterator[list[bytes]]:
        """What one request receives. A failure takes the bytes along."""
        received: list[bytes] = []
        _RECEIVED.set(received)
        try:
            yield received
        except ProviderError as error:
            error.raw = self._raw(received)
            raise

    @cached_property
    def _line(self) -> _Line:
        return _Line(self._version, self._connect)

    async def _exchange(self, chat: Chat, request: ModelRequest) -> Reply:
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters

        field = "" if self.native_replay else self._sampling.reasoning_field
        replay = Replay(chat.system, self.native_replay, field)
        with self._receiving() as received:
            try:
                response = await model_request(
                    chat,
                    list(spoken_messages(request.messages, replay)),
                    model_settings=self._settings(request.seed),  # type: ignore[arg-type]  # a dict of what each provider's settings have
                    model_request_parameters=ModelRequestParameters(
                        function_tools=[tool_definition(spec) for spec in request.tools],
                        **_shape(request.schema),
                    ),
                    instrument=False,
                )
                return heard_reply(response, self._raw(received), self._version, replay)
            except ProviderError:
                raise
            except Exception as error:  # whatever the SDK makes of a foreign server's bytes
                raise classify(error, bool(received)) from None

    def _raw(self, received: list[bytes]) -> bytes:
        """What was received last, as it came; but for our key, where a server quotes it."""
        raw = received[-1] if received else b""
        return raw.replace(self._api_key.encode(), b"[key]") if len(self._api_key) > 7 else raw


class _Line:
    """The connection of one model, and the thread whose event loop it lives on."""

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
        self.run(self._close_connection())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close_connection(self) -> None:
        await self.connection.close()


def keep_bytes(data: bytes) -> None:
    """Keep the bytes of a response for the try that they belong to."""
    _RECEIVED.get().append(data)


def keeping_client(seconds: float) -> httpx2.AsyncClient:
    """An HTTP client that keeps what it receives before anybody parses it."""
    import httpx2

    async def keep(response: httpx2.Response) -> None:
        keep_bytes(await response.aread())

    return httpx2.AsyncClient(
        event_hooks={"response": [keep]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
        timeout=httpx2.Timeout(seconds),
    )


def _shape(schema: str) -> dict[str, Any]:
    """The parameters of a request whose reply is held to a JSON Schema by the server."""
    from pydantic_ai.output import OutputObjectDefinition

    if not schema:
        return {}
    shape = OutputObjectDefinition(json_schema=json.loads(schema), name="reply", strict=True)
    return {"output_mode": "native", "output_object": shape, "allow_text_output": True}

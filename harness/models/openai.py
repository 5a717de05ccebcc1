"""Any server that speaks the OpenAI chat protocol, by its base URL, through pydantic-ai.

One HTTP client to a model, on an event loop of its own, serves the threads of a worker. The
SDK's retries are off: what is tried again is decided and counted here. The key is used for the
requests and stands in no record, message or error.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from generators.seed import Seed
from harness.errors import AttemptFailed, Boundary
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, ToolSpec, Usage

if TYPE_CHECKING:
    from pydantic_ai import messages as pm
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings

T = TypeVar("T")

# Worth another try within a turn; all else fails the attempt at once.
RETRIED = frozenset(("rate_limit", "overload", "connection"))
_FILTER_CODES = frozenset(("content_filter", "content_policy_violation"))
_MAX_COUNT = 2**53  # of tokens; a larger one is no number that JSON carries

# The bytes of the response that the current request received, before they are parsed.
_RECEIVED: ContextVar[list[bytes]] = ContextVar("_RECEIVED")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is asked. None leaves the choice to the server."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning_field: str = ""  # of its messages; if given, reasoning is sent back under it
    send_seed: bool = False  # give the server a seed for each turn
    seconds: float = 300.0  # one request may take
    retries: int = 3
    backoff_seconds: float = 1.0  # before the first retry; doubled for each further one


class OpenAIModel:
    """A model behind an OpenAI-compatible server."""

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
        return f"OpenAIModel({self._name!r}, {self._version!r}, {self._base_url!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def trusted(self) -> bool:
        return False

    @property
    def paid(self) -> bool:
        return True

    def respond(self, request: ModelRequest) -> Reply:
        """One reply. A rate limit, an overload or a lost connection is tried again, after a
        pause with jitter from the request's seed; raises AttemptFailed(PROVIDER, class)."""
        for tried in range(self._sampling.retries + 1):
            try:
                return replace(self._request(request), retries=tried)
            except _ProviderError as error:
                if error.kind not in RETRIED or tried == self._sampling.retries:
                    raise AttemptFailed(Boundary.PROVIDER, error.kind, error.detail) from None
                self._sleep(pause(self._sampling.backoff_seconds, tried, error.wait, request.seed))
        raise AssertionError("the loop returns or raises")

    def close(self) -> None:
        """Close the connections. The next request opens them again."""
        with self._lock:
            line = self.__dict__.pop("_line", None)
        if line is not None:
            line.close()

    def _request(self, request: ModelRequest) -> Reply:
        with self._lock:
            line = self._line
        return line.run(self._exchange(line.chat, request))

    @cached_property
    def _line(self) -> _Line:
        return _Line(self._version, self._base_url, self._api_key)

    async def _exchange(self, chat: OpenAIChatModel, request: ModelRequest) -> Reply:
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters

        received: list[bytes] = []
        _RECEIVED.set(received)
        try:
            response = await model_request(
                chat,
                list(_messages(request.messages, self._sampling.reasoning_field, chat.system)),
                model_settings=_settings(self._sampling, request.seed),
                model_request_parameters=ModelRequestParameters(
                    function_tools=[_tool(spec) for spec in request.tools]
                ),
                instrument=False,
            )
            return _reply(response, received[-1] if received else b"", self._version)
        except _ProviderError:
            raise
        except Exception as error:  # whatever the SDK makes of a foreign server's bytes
            raise _classify(error, bool(received)) from None


class _Line:
    """The client of one model, and the thread whose event loop it lives on."""

    def __init__(self, version: str, base_url: str, api_key: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"model {version}", daemon=True
        )
        self._thread.start()
        self.chat = self.run(_connect(version, base_url, api_key))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self.run(self.chat.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _connect(version: str, base_url: str, api_key: str) -> OpenAIChatModel:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    async def keep(response: httpx2.Response) -> None:
        _RECEIVED.get().append(await response.aread())

    http = httpx2.AsyncClient(
        event_hooks={"response": [keep]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
    )
    client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http, max_retries=0)
    provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
    return OpenAIChatModel(version, provider=provider)


def _settings(sampling: Sampling, seed: Seed) -> OpenAIChatModelSettings:
    settings: OpenAIChatModelSettings = {
        "max_retries": 0,
        "timeout": sampling.seconds,  # of each read; request_timeout is of the whole
        "request_timeout": sampling.seconds,
    }
    if sampling.temperature is not None:
        settings["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        settings["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        settings["max_tokens"] = sampling.max_tokens
    if sampling.reasoning_effort is not None:
        settings["extra_body"] = {"reasoning_effort": sampling.reasoning_effort}
    if sampling.send_seed:
        settings["seed"] = seed.child("server").rng().integer(0, 2**31 - 1)
    return settings


def _tool(spec: ToolSpec) -> Any:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=dict(spec.parameters),
        strict=False,
    )


def _messages(
    messages: Sequence[Message], reasoning_field: str, system: str
) -> Iterator[pm.ModelMessage]:
    """Our messages as pydantic-ai's: runs of what goes in, and each of what came out."""
    from pydantic_ai import messages as pm

    names = {call.id: call.name for message in messages for call in message.calls}
    for spoken, run in groupby(messages, key=lambda message: message.role is Role.ASSISTANT):
        if spoken:
            for message in run:
                yield pm.ModelResponse(parts=_said(message, reasoning_field, system))
        else:
            heard = list(run)
            parts = [_told(message, names) for message in heard]
            # The protocol lets tools answer in text only: what they show follows as a user's.
            shown = [part for message in heard for part in _shown(message, names)]
            yield pm.ModelRequest(parts=[*parts, *shown])


def _told(message: Message, names: dict[str, str]) -> pm.ModelRequestPart:
    from pydantic_ai import messages as pm

    if message.role is Role.SYSTEM:
        return pm.SystemPromptPart(message.text)
    if message.role is Role.TOOL:
        return pm.ToolReturnPart(names[message.call_id], message.text, message.call_id)
    images = _images(message)
    return pm.UserPromptPart([message.text, *images] if images else message.text)


def _shown(message: Message, names: dict[str, str]) -> Iterator[pm.ModelRequestPart]:
    from pydantic_ai import messages as pm

    if message.role is Role.TOOL and message.images:
        title = f"[what {names[message.call_id]} ({message.call_id}) showed]"
        yield pm.UserPromptPart([title, *_images(message)])


def _images(message: Message) -> list[pm.BinaryContent]:
    from pydantic_ai import messages as pm

    return [pm.BinaryContent(image.data, media_type=image.media_type) for image in message.images]


def _said(message: Message, reasoning_field: str, system: str) -> list[pm.ModelResponsePart]:
    from pydantic_ai import messages as pm

    parts: list[pm.ModelResponsePart] = []
    if message.reasoning and reasoning_field:
        parts.append(pm.ThinkingPart(message.reasoning, id=reasoning_field, provider_name=system))
    if message.text or not message.calls:
        parts.append(pm.TextPart(message.text))
    parts += [pm.ToolCallPart(call.name, call.arguments, call.id) for call in message.calls]
    return parts


def _reply(response: pm.ModelResponse, raw: bytes, version: str) -> Reply:
    from pydantic_ai import messages as pm

    refusal = (response.provider_details or {}).get("refusal")
    if response.finish_reason == "content_filter" and not refusal:
        raise _ProviderError("content_filter")
    texts = [part.content for part in response.parts if isinstance(part, pm.TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, pm.ThinkingPart)]
    calls = [part for part in response.parts if isinstance(part, pm.ToolCallPart)]
    message = Message(
        Role.ASSISTANT,
        _text(str(refusal) if refusal else "\n\n".join(texts)),
        calls=tuple(_call(part) for part in calls),
        reasoning=_text("\n\n".join(thoughts)),
    )
    usage = Usage(_count(response.usage.input_tokens), _count(response.usage.output_tokens))
    finish = "refusal" if refusal else (response.finish_reason or "stop")
    return Reply(message, usage, _text(response.model_name or version), finish, raw)


def _call(part: pm.ToolCallPart) -> ToolCall:
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    return ToolCall(_text(part.tool_call_id), _text(part.tool_name), _text(arguments))


def _text(text: str) -> str:
    """The text without lone surrogates, which JSON can smuggle in and UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode()


def _count(tokens: int) -> int | None:
    """A token count; the SDK says 0 where the server says nothing."""
    return tokens if 0 < tokens < _MAX_COUNT else None


def pause(first: float, tried: int, asked: float | None, seed: Seed) -> float:
    """Seconds to wait before the next try: doubled each time, shaken by half either way, and no
    less than the server asked for, up to a minute."""
    shaken = first * 2.0**tried * seed.child("pause", tried).rng().uniform(0.5, 1.5)
    return min(max(shaken, asked or 0.0), 60.0)


class _ProviderError(Exception):
    """What came of one try."""

    def __init__(self, kind: str, detail: str = "", wait: float | None = None) -> None:
        super().__init__(kind)
        self.kind, self.detail, self.wait = kind, detail, wait


def _classify(error: Exception, received: bool) -> Exception:
    """The error by what to do about it. Its detail is a status, never a body: servers quote
    prompts, and keys, in their messages. An error of our own making is handed back as it is."""
    from pydantic_ai import exceptions as pe

    if isinstance(error, pe.ModelAPIError):
        status = getattr(error, "status_code", None)
        detail = f"HTTP {status}" if status is not None else ""
        return _ProviderError(_kind(error), detail, error.retry_after)
    if isinstance(error, pe.ContentFilterError):
        return _ProviderError("content_filter")
    if isinstance(error, pe.UserError) or not received:
        return error
    return _ProviderError("malformed", type(error).__name__)


def _kind(error: Any) -> str:
    from pydantic_ai import exceptions as pe

    if error.provider_error_code in _FILTER_CODES or error.provider_error_type in _FILTER_CODES:
        return "content_filter"
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (pe.ModelRequestTimeout, "timeout"),
        (pe.ModelTimeoutError, "timeout"),
        (pe.ModelConnectionError, "connection"),
        (pe.ModelRateLimitError, "rate_limit"),
        (pe.ModelQuotaExceededError, "quota"),
        (pe.ModelUnavailableError, "overload"),
        (pe.ModelServerError, "overload"),
        (pe.ModelAuthenticationError, "auth"),
        (pe.ModelContextWindowExceededError, "context_length"),
        (pe.ModelHTTPError, "bad_request"),
    )
    return next((kind for cls, kind in kinds if isinstance(error, cls)), "malformed")

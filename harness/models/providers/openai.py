"""Any server that speaks the OpenAI chat protocol, by its base URL.

Token log-probabilities of a given text come from ``/completions``, which takes it as it is, without
a chat template around it. One more token is requested, since some servers refuse to generate none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from generators.seed import Seed
from harness.model import OVERFLOW, Message, Reply, Role, TextRequest, Usage
from harness.models.providers.base import Connection, ProviderModel, keeping_client
from harness.models.providers.retry import TOO_LONG_STATUS, ProviderError, is_too_long
from harness.models.token_logprobs import ECHO, PROMPT_LOGPROBS

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel(ProviderModel):
    """A model behind an OpenAI-compatible server. Each server has its own field for what a model
    thought, or none: it is sent back where the pin names one."""

    libraries = ("openai",)
    extra = "models"
    usual_address = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"
    own_settings = ("reasoning_field", "send_seed")
    native_replay = False

    async def _connect(self) -> Connection:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            http_client=keeping_client(self._sampling.seconds),
            max_retries=0,
        )
        provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
        return Connection(OpenAIChatModel(self._version, provider=provider), client.close)

    def _settings(self, seed: Seed) -> dict[str, Any]:
        settings = super()._settings(seed)
        settings |= {"max_retries": 0, "timeout": self._sampling.seconds}
        # Under the protocol's own name: a compatible server's model has no profile to map it by.
        if effort := settings.pop("thinking", None):
            settings["extra_body"] = {"reasoning_effort": effort}
        if self._sampling.send_seed:
            settings["seed"] = seed.child("server").rng().integer(0, 2**31 - 1)
        return settings

    def text_logprobs(self, request: TextRequest) -> Reply:
        """Return the log-probabilities of a text as far as the server reports them; raises as
        ``respond``."""
        return self._with_retries(lambda chat: self._text_logprobs(chat, request), request)

    async def _text_logprobs(self, chat: Any, request: TextRequest) -> Reply:
        with self._receiving() as received:
            body = request_body(request, self._version)
            answer = await post_json(chat.client, "/completions", body)
            return reply_from_completion(answer, self._raw(received), self._version)


_KINDS = {401: "auth", 402: "quota", 403: "auth", 408: "timeout", 429: "rate_limit"}
_NO_MONEY = "insufficient_quota"


def request_body(request: TextRequest, version: str) -> dict[str, Any]:
    """The body of the request. Raises ProviderError for an unknown method."""
    body: dict[str, Any] = {
        "model": version,
        "prompt": request.text,
        "max_tokens": 1,
        "temperature": 0,
    }
    alternatives = max(request.top, 1)  # some servers take 0 for none at all
    if request.way == ECHO:
        return {**body, "echo": True, "logprobs": alternatives}
    if request.way == PROMPT_LOGPROBS:
        return {**body, "prompt_logprobs": alternatives}
    raise ProviderError("bad_request", "no way to ask")


async def post_json(client: AsyncOpenAI, path: str, body: dict[str, Any]) -> Any:
    """Send a request and return the parsed answer. Raises ProviderError."""
    import httpx2
    import openai

    try:
        response = await client.post(path, body=body, cast_to=httpx2.Response)
    except openai.APIStatusError as error:
        raise _refused(error) from None
    except openai.APITimeoutError:
        raise ProviderError("timeout") from None
    except (openai.APIConnectionError, httpx2.HTTPError):
        raise ProviderError("connection") from None
    try:
        return json.loads(response.content)
    except ValueError:
        raise ProviderError("malformed", "not JSON") from None


def reply_from_completion(body: Any, raw: bytes, version: str) -> Reply:
    """Convert a completion to a reply with the bytes in ``raw``. Raises ProviderError if the answer
    is no completion."""
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise ProviderError("malformed", "not a completion")
    used = body.get("usage")
    usage = Usage(*(_count(used, name) for name in ("prompt_tokens", "completion_tokens")))
    served = body.get("model")
    return Reply(
        Message(Role.ASSISTANT, ""), usage, served if isinstance(served, str) else version, raw=raw
    )


def _count(used: Any, name: str) -> int | None:
    count = used.get(name) if isinstance(used, dict) else None
    return count if isinstance(count, int) and count >= 0 else None


def _refused(error: Any) -> ProviderError:
    """Convert an error status; the server's message is discarded."""
    status = int(error.status_code)
    kind = _KINDS.get(status, "overload" if status >= 500 else "bad_request")
    if error.code == _NO_MONEY:
        kind = "quota"
    elif status in TOO_LONG_STATUS and is_too_long(error.body):
        kind = OVERFLOW
    wait = error.response.headers.get("retry-after", "")
    return ProviderError(kind, f"HTTP {status}", float(wait) if wait.isdigit() else None, status)

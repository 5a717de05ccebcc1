"""Token log-probabilities of a given text from a server of the OpenAI protocol.

``/completions`` takes the text as it is, without a chat template around it. One more token is
requested, since some servers refuse to generate none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.model import OVERFLOW, Message, Reply, Role, TextRequest, Usage
from harness.models.providers.retry import TOO_LONG_STATUS, ProviderError, is_too_long
from harness.models.token_logprobs import ECHO, PROMPT_LOGPROBS

if TYPE_CHECKING:
    from openai import AsyncOpenAI

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
    """Convert an error status; the server's message is not kept."""
    status = int(error.status_code)
    kind = _KINDS.get(status, "overload" if status >= 500 else "bad_request")
    if error.code == _NO_MONEY:
        kind = "quota"
    elif status in TOO_LONG_STATUS and is_too_long(error.body):
        kind = OVERFLOW
    wait = error.response.headers.get("retry-after", "")
    return ProviderError(kind, f"HTTP {status}", float(wait) if wait.isdigit() else None, status)

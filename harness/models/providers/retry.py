"""Retries of failed requests: the failures to retry, their number and the pauses between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from generators.seed import Seed
from harness.model import OVERFLOW

# Temporary failures are retried as often as the pin says; those that may cost or recur, once.
RETRIED = frozenset(("rate_limit", "overload", "connection"))
TOO_LARGE = "too_large"  # error class of a reply whose body is too long to be one
RETRIED_ONCE = frozenset(("timeout", "malformed", TOO_LARGE))
LONGEST_PAUSE = 900.0  # seconds; a server that asks for more is not waited for
_LONGEST_BACKOFF = 60.0  # seconds, where the server asks for nothing
# Error messages for a conversation that is too long for the model, beyond those pydantic-ai knows:
# llama.cpp, Anthropic, xAI, SGLang, TGI, LM Studio, MiniMax, and models of others on Bedrock.
_TOO_LONG = re.compile(
    r"exceed_context_size_error|exceeds the available context size|exceed context limit|"
    r"maximum (context|prompt) length|longer than the model's context length|"
    r"tokens \+ `max_new_tokens` must be|greater than the context length|"
    r"context window exceeds limit|(prompt|input) is too long",
    re.IGNORECASE,
)
_QUOTED = 2000  # characters; a server that quotes a prompt does so behind its own words
TOO_LONG_STATUS = frozenset((400, 413, 422))  # of a request that was understood and refused
CONTENT_FILTER = "content_filter"  # finish of a response that a filter of the provider cut off
REFUSAL = "refusal"  # finish of a reply that declines the task
_FILTER_CODES = frozenset((CONTENT_FILTER, "content_policy_violation"))


class ProviderError(Exception):
    """A failed request. Its detail is a status only, since bodies quote prompts and keys."""

    def __init__(
        self,
        kind: str,
        detail: str = "",
        wait: float | None = None,
        status: int | None = None,
        raw: bytes = b"",
    ) -> None:
        super().__init__(kind)
        self.kind, self.detail, self.wait = kind, detail, wait
        self.status, self.raw = status, raw


_KINDS = {401: "auth", 402: "quota", 403: "auth", 408: "timeout", 429: "rate_limit"}


def kind_of_status(status: int) -> str:
    """Return the class of a failure by the HTTP status of its response."""
    return _KINDS.get(status, "overload" if status >= 500 else "bad_request")


def try_again(failed: Sequence[str], retries: int, asked: float | None = None) -> bool:
    """Return True to retry after requests that failed by these classes, in order, the last of which
    asked for a pause of ``asked`` seconds."""
    if not failed or len(failed) > retries or (asked or 0.0) > LONGEST_PAUSE:
        return False
    kind = failed[-1]
    return kind in RETRIED or (kind in RETRIED_ONCE and failed.count(kind) == 1)


def pause(first: float, tried: int, asked: float | None, seed: Seed) -> float:
    """Return the seconds to wait before the next request: doubled each time up to a minute, with
    jitter of half either way; at least what the server asked for."""
    wait = first * 2.0**tried * seed.child("pause", tried).rng().uniform(0.5, 1.5)
    return max(min(wait, _LONGEST_BACKOFF), asked or 0.0)


def is_too_long(body: object) -> bool:
    """Return True if an error body reports that the request exceeds the model's context window."""
    return _TOO_LONG.search(str(body)[:_QUOTED]) is not None


def is_filtered(error: Exception) -> bool:
    """Return True if a library's error reports that a content filter stopped the request."""
    from pydantic_ai import exceptions as pe

    if isinstance(error, pe.ModelAPIError):
        return bool({error.provider_error_code, error.provider_error_type} & _FILTER_CODES)
    return isinstance(error, pe.ContentFilterError)


def classify(error: Exception, received: bool) -> ProviderError:
    """Convert a library's error to a ProviderError by class. Raises the error itself if it is one
    of programming: of a wrong setting, or before anything was received."""
    from pydantic_ai import exceptions as pe

    if isinstance(error, pe.ModelAPIError):
        status = getattr(error, "status_code", None)
        detail = f"HTTP {status}" if status is not None else ""
        return ProviderError(_kind(error), detail, error.retry_after, status)
    if isinstance(error, pe.UserError) or not received:
        raise error
    return ProviderError("malformed", type(error).__name__)


def _kind(error: Any) -> str:
    from pydantic_ai import exceptions as pe

    refused = isinstance(error, pe.ModelHTTPError) and error.status_code in TOO_LONG_STATUS
    if refused and is_too_long(error.body):
        return OVERFLOW
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (pe.ModelRequestTimeout, "timeout"),
        (pe.ModelTimeoutError, "timeout"),
        (pe.ModelConnectionError, "connection"),
        (pe.ModelRateLimitError, "rate_limit"),
        (pe.ModelQuotaExceededError, "quota"),
        (pe.ModelUnavailableError, "overload"),
        (pe.ModelServerError, "overload"),
        (pe.ModelAuthenticationError, "auth"),
        (pe.ModelContextWindowExceededError, OVERFLOW),
        (pe.ModelHTTPError, "bad_request"),
    )
    return next((kind for cls, kind in kinds if isinstance(error, cls)), "malformed")

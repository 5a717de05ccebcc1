"""Retries of failed requests: the failures to retry, their number and the pauses between."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

from generators.seed import Seed
from harness.model import REFUSED, Usage

UNFINISHED = "unfinished"  # a reply that did not end as the model's own; its reason follows
NO_REPLY = "no_reply"  # an error without a known code, or a page, in the place of a reply
RECITATION = "recitation"  # a filter against recitation cut the reply off
TOO_LARGE = "too_large"  # a reply with a body that is too long to be one
# Temporary failures are retried as often as the pin says; those that may cost or recur, once. A
# request that was refused once may have met a fault between; refused twice, it is at fault.
CONNECTION, TLS = "connection", "tls"  # nothing answers, or no secure connection can be made
RETRIED = frozenset(("rate_limit", "overload", CONNECTION, TLS, UNFINISHED, NO_REPLY, RECITATION))
RETRIED_ONCE = frozenset(("timeout", "malformed", TOO_LARGE, REFUSED))
LONGEST_PAUSE = 900.0  # seconds; a server that asks for more is not waited for
_LONGEST_BACKOFF = 60.0  # seconds, where the server asks for nothing


class ProviderError(Exception):
    """A failed request. Its detail is a status only, since bodies quote prompts and keys. ``text``
    is what the model had generated, if the error has it, and ``usage`` what it cost."""

    def __init__(
        self,
        kind: str,
        detail: str = "",
        wait: float | None = None,
        status: int | None = None,
        *,
        text: str = "",
        usage: Usage = Usage(0, 0),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(kind)
        self.kind, self.detail, self.wait, self.status = kind, detail, wait, status
        self.raw, self.reading, self.text, self.usage = b"", "", text, usage


def try_again(failed: Sequence[str], retries: int, asked: float | None = None) -> bool:
    """Return True to retry after requests that failed by these classes, in order, the last of which
    asked for a pause of ``asked`` seconds."""
    if not failed or not retries or (asked or 0.0) > LONGEST_PAUSE:
        return False
    kind = failed[-1].partition(" ")[0]
    once = kind in RETRIED_ONCE and failed.count(kind) == 1
    # A refusal at the last of the tries may be a fault too, and costs a tool's result if believed.
    return (once or kind in RETRIED) and (len(failed) <= retries or (once and kind == REFUSED))


def pause(first: float, tried: int, asked: float | None, seed: Seed) -> float:
    """Return the seconds to wait before the next request: doubled each time up to a minute, with
    jitter of half either way; at least what the server asked for."""
    wait = first * 2.0**tried * seed.child("pause", tried).rng().uniform(0.5, 1.5)
    return max(min(wait, _LONGEST_BACKOFF), asked or 0.0)


def classify(error: Exception, received: bool) -> ProviderError:
    """Convert a library's error to a ProviderError by class. Raises the error itself if it is one
    of programming: of a wrong setting, or before anything was received."""
    import httpx2
    from pydantic_ai.exceptions import UserError

    causes = tuple(_causes(error))
    if any(isinstance(each, (TimeoutError, httpx2.TimeoutException)) for each in causes):
        return ProviderError("timeout")
    if any(isinstance(each, httpx2.HTTPError) for each in causes):
        return ProviderError(kind_of_break(error))
    if isinstance(error, UserError) or not received:
        raise error
    return ProviderError("malformed", type(error).__name__)


def kind_of_break(error: BaseException) -> str:
    """Return the class of a connection that could not be made, or broke."""
    return TLS if any(isinstance(each, ssl.SSLError) for each in _causes(error)) else CONNECTION


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

"""HTTP for every provider: a response's bytes are kept before they are parsed, up to a limit.

A body may be compressed, and a small one unpacks to gigabytes: it is unpacked here, within the same
limit. What is too long is never handed to an SDK.
"""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, cast

from harness.models.providers.bodies import Expected, Reading
from harness.models.providers.retry import TOO_LARGE, ProviderError

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 64 * 2**20  # of a body, unpacked
KEPT_BYTES = 2**16  # of a body that is longer
_PACKED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


@dataclass(slots=True)
class Received:
    """The response to the request that is under way, as received and as it was read."""

    expected: Expected
    body: bytes | None = None  # None before a response is there
    status: int = 0
    wait: float | None = None  # seconds that the server asks for before the next request
    reading: Reading | None = None
    failed: ProviderError | None = None  # it is no reply of the model's

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> bytes:
        """Keep a body, and return it in the form that libraries take. Raises ProviderError."""
        self.body, self.status, self.failed = body, status, None
        try:
            self.reading = self.expected.read(status, headers, body)
        except ProviderError as error:
            self.failed = error
            raise
        return self.reading.body


RECEIVED: ContextVar[Received] = ContextVar("RECEIVED")


@cache
def _tls() -> ssl.SSLContext:
    """The trusted authorities, which take a twentieth of a second to load."""
    import httpx2

    return httpx2.create_ssl_context()


def keeping_client(seconds: float) -> httpx2.AsyncClient:
    """Return an HTTP client that keeps each response in RECEIVED before it is parsed. ``seconds``
    limits connecting and each read. A request raises ProviderError for what is no reply, and for
    more than MOST_BYTES. It has a connection of its own: a server or proxy that sends a reply twice
    would answer the next request on that connection with it, and no protocol echoes a request's id.
    """
    import httpx2

    async def keep(response: httpx2.Response) -> None:
        received = RECEIVED.get()
        received.wait = asked_wait(response.headers)
        encoding = response.headers.pop("content-encoding", "")
        body, packed = bytearray(), cast("httpx2.AsyncByteStream", response.stream)
        try:
            async for chunk in _unpacked(packed, encoding.strip().lower()):
                body += chunk
                if len(body) > MOST_BYTES:
                    received.body = bytes(body[:KEPT_BYTES])
                    received.failed = ProviderError(TOO_LARGE)
                    raise received.failed
        finally:
            await packed.aclose()
        read = received.read(response.status_code, response.headers, bytes(body))
        response.headers.pop("content-length", None)
        response.stream = httpx2.ByteStream(read)

    return httpx2.AsyncClient(
        event_hooks={"response": [keep]},
        headers={"Accept-Encoding": "gzip"},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        timeout=httpx2.Timeout(seconds),
        verify=_tls(),
    )


async def _unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield a body unpacked, as it comes, in pieces of at most a megabyte (DEFLATE packs up to
    1,032 bytes into one): what is too long is noticed soon. A form that no request asks for stays
    packed, and no SDK can read it."""
    unpack = zlib.decompressobj(_GZIP_OR_ZLIB) if encoding in _PACKED else None
    async for chunk in chunks:
        for start in range(0, len(chunk), 1000):
            piece = chunk[start : start + 1000]
            try:
                yield piece if unpack is None else unpack.decompress(piece)
            except zlib.error:
                return  # what is there so far is kept, and is malformed


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks its client to wait: ``retry-after-ms`` (OpenAI,
    Azure) or ``Retry-After``, in seconds or as a date (RFC 9110, 10.2.3), which is compared with
    the server's own ``Date`` if it sends one; None if it asks for none, or in another form."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    asked = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        return float(asked)
    until, now = _date(asked), _date(headers.get("date", "")) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)

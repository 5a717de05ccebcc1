"""Faults of a provider, and a seeded schedule of them."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache

from generators.seed import Seed
from tests.conformance.conversation import Fault, Json, Said
from tests.conformance.rules import MB
from tests.conformance.transport import Answer
from tests.conformance.wire_format import WireFormat

ERRORS = ("rate_limit", "server", "overload")
# Of a reply that was made: the connection, the bytes, the form.
SPOILT = ("hang_up", "silence", "drip", "over_long", "malformed", "wrong_type", "empty")
# The model's own: cut off by its output limit, and a refusal.
SAID = ("truncated", "refusal")
KINDS = (*ERRORS, *SPOILT, *SAID)
_TOO_LARGE = 80 * MB
_REFUSAL = "I'm sorry, but I can't help with that."


def spoil_words(fault: Fault) -> Said:
    """The reply as the model says it after all: whole, cut off, or a refusal."""
    said = fault.said or Said()
    if fault.kind == "refusal":
        return Said(_REFUSAL, finish="refusal")
    if fault.kind == "truncated":
        return Said(said.text[: len(said.text) // 2] or "Let me", finish="length")
    return said


def spoil(fault: Fault, answer: Answer, format_: WireFormat, seconds: float) -> Answer:
    """The response as it is delivered. ``seconds``: how long a slow one takes."""
    kind = fault.kind
    if kind == "hang_up":
        return replace(answer, drop=True)
    if kind == "silence":
        return replace(answer, seconds=seconds)
    if kind == "drip":
        return replace(answer, drip=seconds)
    if kind == "malformed":
        return replace(answer, body=answer.data[: len(answer.data) // 2])
    if kind == "wrong_type":
        return Answer(b"<html><body>Bad gateway</body></html>", media="text/html")
    if kind == "over_long":
        return _over_long(format_)
    return answer


def _over_long(format_: WireFormat) -> Answer:
    """A body that is beyond any cap: compressed for clients that unpack it."""
    if format_.name == "converse":
        return Answer(_padded())
    return Answer(_bomb(), headers=(("Content-Encoding", "gzip"),))


@lru_cache(1)
def _padded() -> bytes:
    return b'{"padding": "' + b" " * _TOO_LARGE + b'"}'


@lru_cache(1)
def _bomb() -> bytes:
    return gzip.compress(_padded(), 1)


@dataclass
class Schedule:
    """Faults drawn for a ``share`` of the requests: which, from a request's digest and how often it
    came; of what kind, in rounds of all kinds, each shuffled anew. Neither depends on what a
    request means."""

    seed: Seed
    share: float
    wait: float  # seconds that a rate limit asks for
    _drawn: dict[str, list[str]] = field(default_factory=dict)  # kinds, by model
    _seen: Counter[bytes] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self, model: str, digest: bytes) -> str | None:
        """The kind of fault of a request, given by its digest; None for none."""
        with self._lock:
            self._seen[digest] += 1
            rng = self.seed.child("fault", digest.hex(), self._seen[digest]).rng()
            if rng.uniform(0.0, 1.0) >= self.share:
                return None
            drawn = self._drawn.setdefault(model, [])
            number, place = divmod(len(drawn), len(KINDS))
            drawn.append(self.seed.child("kinds", model, number).rng().shuffle(KINDS)[place])
            return drawn[-1]

    def drawn_for(self, model: str) -> Counter[str]:
        """The faults that a model's requests have met so far, by kind."""
        with self._lock:
            return Counter(self._drawn.get(model, ()))


def spoil_form(fault: Fault, format_: WireFormat, body: Json) -> Json:
    """The body of the reply, without what it should have."""
    return format_.empty(body) if fault.kind == "empty" else body

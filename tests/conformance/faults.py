"""Faults of a provider, and a seeded schedule of them."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

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
# What stands between: statuses of requests that did not get through, ends that are no model's own,
# and failures within HTTP 200.
_BETWEEN = (400, 408, 409, 421, 423, 424, 425, 444, 498, 499, 520, 529)
STATUSES = tuple(f"status {number}" for number in _BETWEEN)
ENDS = tuple(f"end {name}" for name in ("error", "abort", "cancelled", "load", "queued", "OTHER"))
INSIDE: dict[str, Json | bytes] = {
    "inner number": {"error": {"message": "Rate limit exceeded", "code": 429}},
    "inner text": {"error": {"message": "Upstream", "code": "502"}},
    "inner name": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "inner event": b'event: error\ndata: {"error": {"code": 503, "message": "no worker"}}\n\n',
    "inner page": b"<!DOCTYPE html><title>502 Bad Gateway</title>",
}
# Readable all the same.
SHAPES = ("no_id", "same_id", "number_id", "object_arguments", "no_model", "unknown_items")
KINDS = (*ERRORS, *SPOILT, *SAID, *STATUSES, *ENDS, *INSIDE, *SHAPES)
_END_AT = {
    "chat": ("choices", 0, "finish_reason"), "responses": ("status",), "messages": ("stop_reason",),
    "gemini": ("candidates", 0, "finishReason"), "converse": ("stopReason",),
}  # fmt: skip
_IDS = ("id", "call_id", "toolUseId")
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
    if kind in STATUSES:
        return format_.error(int(kind[-3:]), "", "SECRET", None)
    if kind in INSIDE:
        return Answer(INSIDE[kind])
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
    if fault.kind in ENDS:
        body = json.loads(json.dumps(body))
        *path, last = _END_AT[format_.name]
        place: Any = body
        for step in path:
            place = place[step]
        place[last] = fault.kind.removeprefix("end ")
        return body
    if fault.kind in SHAPES:
        return dict(_reshape(fault.kind, body))
    return format_.empty(body) if fault.kind == "empty" else body


def _reshape(kind: str, value: Any) -> Any:
    """The value as other servers write it: of ids only those of calls change."""
    if isinstance(value, list):
        odd = [{"type": "odd", "odd": {}}] if kind == "unknown_items" else []
        return [_reshape(kind, each) for each in value] + odd * any(map(_has_type, value))
    if not isinstance(value, dict):
        return value
    made = {name: _reshape(kind, each) for name, each in value.items()}
    if kind == "no_model":
        made |= dict.fromkeys({"model", "modelVersion", "created"} & made.keys())
    if kind == "object_arguments" and isinstance(made.get("arguments"), str):
        made["arguments"] = json.loads(made["arguments"])
    if {"function", "input", "args", "arguments"} & made.keys():
        for name in made.keys() & _IDS:
            if kind == "no_id":
                made |= {name: None, **({"type": ""} if "function" in made else {})}
            made |= {name: {"same_id": "call_0", "number_id": 7}.get(kind, made[name])}
    return made


def _has_type(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value and "function" not in value

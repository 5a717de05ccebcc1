"""Caps on what is kept of one reply, so that no model makes an episode arbitrarily large."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.agent.tools import MAX_ARGUMENT_CHARS, cut_text
from harness.model import Reply, ToolCall

MAX_CALLS = 16  # in one turn
MAX_TEXT_CHARS = 1_000_000  # of a message, and of its reasoning
MAX_NATIVE_CHARS = 8_000_000
MAX_RAW_BYTES = 4 << 20


def cap_reply(reply: Reply) -> Reply:
    """Return the reply with its first ``MAX_CALLS`` tool calls, their number beyond these in
    ``dropped_calls``, and texts and bytes cut. A provider gets back what is kept, and nothing
    else."""
    message, raw = reply.message, reply.raw[:MAX_RAW_BYTES]
    calls = tuple(map(_cap_call, message.calls[:MAX_CALLS]))
    text, reasoning = (cut_text(t, MAX_TEXT_CHARS) for t in (message.text, message.reasoning))
    capped = replace(message, text=text, reasoning=reasoning, calls=calls)
    if capped != message or len(message.native) > MAX_NATIVE_CHARS:
        capped = replace(capped, native=_cap_native(message.native, calls))
    if capped == message and len(raw) == len(reply.raw):
        return reply
    reading = reply.reading if raw == reply.raw else ""
    dropped = len(message.calls) - len(calls)
    return replace(reply, message=capped, raw=raw, reading=reading, dropped_calls=dropped)


def _cap_call(call: ToolCall) -> ToolCall:
    if len(call.arguments) <= MAX_ARGUMENT_CHARS:
        return call
    # Some providers want an object back. It names no argument of any tool, so the call is refused.
    return replace(call, arguments=json.dumps({"left out": f"{len(call.arguments):,} characters"}))


def _cap_native(native: str, calls: tuple[ToolCall, ...]) -> str:
    """The provider's own parts without the dropped calls; "" if they are too large even so."""
    if not native:
        return ""
    from harness.models.providers.messages import cut_native

    cut = cut_native(native, calls, lambda text: cut_text(text, MAX_TEXT_CHARS))
    return cut if len(cut) <= MAX_NATIVE_CHARS else ""

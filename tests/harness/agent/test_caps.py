"""What is kept of one reply, however much a model sends."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.agent.caps import MAX_CALLS, MAX_RAW_BYTES, MAX_TEXT_CHARS, cap_reply
from harness.agent.tools import MAX_ARGUMENT_CHARS
from harness.model import Message, Reply, Role, ToolCall, Usage
from harness.models.providers.messages import Replay, to_provider_messages
from harness.spending.purchases import PAID_CALL_CODEC, PaidCall
from tests.harness.paid_attempt import CHARGE
from tests.harness.script import ANSWER, say

FLOOD = 30_000


def test_an_ordinary_reply_is_kept_as_it_is() -> None:
    reply = say(ANSWER)
    assert cap_reply(reply) is reply


def test_tens_of_thousands_of_calls_make_no_large_record() -> None:
    calls = tuple(ToolCall(f"c{n}", "run_command", '{"command": "ls"}') for n in range(FLOOD))
    parts = [
        {"part_kind": "thinking", "content": "hm", "signature": "s", "provider_name": "p"},
        *(
            {
                "part_kind": "tool-call",
                "tool_name": call.name,
                "args": json.loads(call.arguments),
                "tool_call_id": call.id,
            }
            for call in calls
        ),
    ]
    native = json.dumps(parts)
    message = Message(Role.ASSISTANT, "", calls=calls, native=native)
    sent = Reply(message, Usage(1, 1), "v", raw=native.encode())
    kept = cap_reply(sent)
    assert kept.dropped_calls == FLOOD - MAX_CALLS
    assert kept.message.calls == calls[:MAX_CALLS]
    (back,) = to_provider_messages([kept.message], Replay("p", native=True))
    assert [part.part_kind for part in back.parts] == ["thinking", *["tool-call"] * MAX_CALLS]
    size = len(PAID_CALL_CODEC.encode(PaidCall(CHARGE, kept)))
    assert size < 1.5 * MAX_RAW_BYTES
    assert len(PAID_CALL_CODEC.encode(PaidCall(CHARGE, sent))) > 2 * size


def test_texts_and_arguments_are_cut_and_a_provider_still_takes_them() -> None:
    long = "x" * (3 * MAX_TEXT_CHARS)
    native = json.dumps(
        [
            {"part_kind": "text", "content": long},
            {"part_kind": "tool-call", "tool_name": "t", "args": {"a": long}, "tool_call_id": "c"},
        ]
    )
    call = ToolCall("c", "t", json.dumps({"a": long}))
    message = Message(Role.ASSISTANT, long + ANSWER, calls=(call,), reasoning=long, native=native)
    kept = cap_reply(replace(say(""), message=message)).message
    assert kept.text.endswith(ANSWER), "its end is kept"
    for text in (kept.text, kept.reasoning, kept.native):
        assert len(text) < 1.1 * MAX_TEXT_CHARS
    assert len(kept.calls[0].arguments) < 100 < MAX_ARGUMENT_CHARS
    assert isinstance(json.loads(kept.calls[0].arguments), dict)
    (back,) = to_provider_messages([kept], Replay("p", native=True))
    assert [part.part_kind for part in back.parts] == ["text", "tool-call"]

"""The last question on the wire: the tools stay, since the conversation has calls, and the model
may not call them. What all providers do is in test_base.py; here is what has no such choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, ModelRequest, Role, ToolCall
from harness.models.text_tool_calls import TextCalls
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Said
from tests.conformance.server import serving
from tests.harness.script import Playback, say

CALL = ToolCall("c1", "run_command", '{"command": "ls"}')
CLOSED = ModelRequest(
    (
        Message(Role.SYSTEM, "Rules."),
        Message(Role.USER, "Find x."),
        Message(Role.ASSISTANT, "", calls=(CALL,)),
        Message(Role.TOOL, "a.txt", call_id="c1"),
        Message(Role.USER, "Give your best answer."),
    ),
    TOOLS,
    Seed(bytes(32)),
    tool_choice="none",
)


@pytest.mark.usefixtures("provider_keys")
def test_bedrock_sends_no_choice_and_no_marks_to_models_that_take_none() -> None:
    """Its Converse interface knows auto, any and one tool only. Anthropic's models take their own
    field through it; others may call on, and such calls are refused."""
    sent = {}
    for version in ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "asked-model"):
        client = replace(BY_NAME["converse"], version=version)
        with serving(play(Said("x"))) as server, client.model(server, max_tokens=1000) as model:
            model.respond(replace(CLOSED, conversation="c0ffee"))
        (sent[version],) = server.requests
    claude, other = sent.values()
    assert claude["toolConfig"]["tools"]
    assert other["toolConfig"]["tools"]
    assert claude["additionalModelRequestFields"]["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in other.get("additionalModelRequestFields", {})
    assert ["cachePoint" in str(each) for each in (claude, other)] == [True, False]


def test_calls_as_text() -> None:
    """The rules keep the tools, so that the prefix is the same; calls in the reply are not read."""
    written = say(
        '<tool_call>\n{"name": "run_command", "arguments": {"command": "ls"}}\n</tool_call>'
    )
    inner = Playback([written, written])
    closed, opened = (
        TextCalls(inner).respond(replace(CLOSED, tool_choice=choice)) for choice in ("none", "auto")
    )
    assert (closed.message.calls, len(opened.message.calls)) == ((), 1)
    assert inner.asked[0].messages == inner.asked[1].messages
    assert "run_command" in inner.asked[0].messages[0].text

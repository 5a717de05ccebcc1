"""Where Anthropic's replies may be long, its SDK streams them: nothing else is different."""

from __future__ import annotations

import json

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, ModelRequest, Role, Usage
from harness.models.providers.anthropic import AnthropicModel
from harness.models.providers.base import Sampling
from tests.harness.dialects import ANTHROPIC, KEY, streamed

SEED = Seed(bytes(32))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
LOOKS = [("a1", "read_file", {"path": "p"}), ("a2", "run_command", {"command": "ls"})]


def test_a_streamed_conversation_is_as_any_other() -> None:
    script = (
        streamed(ANTHROPIC.speak("Look.", LOOKS, "hm, hm")),
        streamed(ANTHROPIC.speak("x", [], "so")),
    )
    with ANTHROPIC.serve(*script) as served:
        model = AnthropicModel("m", "claude-sonnet-4-5", served.url, KEY, Sampling())
        first = model.respond(ModelRequest(OPENING, TOOLS, SEED))
        answers = (Message(Role.TOOL, "1", call_id="a1"), Message(Role.TOOL, "2", call_id="a2"))
        second = model.respond(ModelRequest((*OPENING, first.message, *answers), TOOLS, SEED))
        model.close()
    assert served.faults == []
    assert served.requests[0]["stream"] is True
    said = first.message
    assert (said.text, said.reasoning, first.finish) == ("Look.", "hm, hm", "tool_call")
    assert [(c.id, c.name, json.loads(c.arguments)) for c in said.calls] == LOOKS
    assert first.usage == Usage(100, 20)
    assert (first.served_version, second.message.text) == (ANTHROPIC.served, "x")
    assert first.raw == script[0].body

"""What a provider's reply may lack, and how it goes back to the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, ModelRequest, Role
from tests.conformance.agents import play
from tests.conformance.clients import CLIENTS, ENVIRONMENT, Client
from tests.conformance.conversation import Call, Fault, Said
from tests.conformance.server import serving

REQUEST = ModelRequest(
    (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x.")), TOOLS, Seed(bytes(32))
)
LOOK = Said("Let me look.", (Call("run_command", {"command": "ls"}),), "hm, hm")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_message_without_text_goes_back_in_a_form_that_is_accepted(client: Client) -> None:
    with serving(play(Said("x"))) as server, client.model(server) as model:
        for text in ("", " \n"):
            silent = Message(Role.ASSISTANT, text)
            again = (*REQUEST.messages, silent, Message(Role.USER, "Go on."))
            server.model = play(Said("x"))
            assert model.respond(replace(REQUEST, messages=again)).message.text == "x"
    assert server.refused == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("kind", ["malformed", "empty"])
def test_half_a_reply_is_no_reply(client: Client, kind: str) -> None:
    """Also where it came as a stream of events, and ended between two of them. An empty message, in
    formats that have a message around it, is the model's own."""
    script = play(Fault(kind, LOOK), LOOK)
    with serving(script) as server, client.model(server) as model:
        reply = model.respond(REQUEST)
    if kind == "empty" and client.format in ("messages", "converse", "responses"):
        assert (reply.message.text, reply.message.calls, reply.failed) == ("", (), ())
    else:
        assert (reply.message.text, reply.failed) == (LOOK.text, ("malformed",))
        assert [call.name for call in reply.message.calls] == ["run_command"]

"""The conformance server refuses what the providers refuse, and reports the cache as they do."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from PIL import Image as Pillow

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Image, Message, ModelRequest, Role
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME, CLIENTS, Client
from tests.conformance.conversation import Call, Json, Said
from tests.conformance.server import Server, serving
from tests.conformance.transport import Incoming
from tests.conformance.wire_format import Memory

OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
LOOKS = (Call("view_image", {"path": "p.png"}), Call("run_command", {"command": "ls"}))
pytestmark = pytest.mark.usefixtures("provider_keys")
Change = Callable[[Json], Any]


def picture(width: int = 40, height: int = 30, format_: str = "PNG") -> bytes:
    data = io.BytesIO()
    Pillow.new("RGB", (width, height), "white").save(data, format_)
    return data.getvalue()


@cache
def record(name: str) -> tuple[Incoming, Memory]:
    """A request of a second turn that the server accepted, with two calls answered, one of them by
    an image; and what the server remembers then."""
    client = BY_NAME[name]
    script = play(Said("Look.", LOOKS, "hm, hm"), Said("x"))
    with serving(script) as server:
        settings = {**client.thinking, "max_tokens": 8000}
        with client.model(server, **settings) as model:
            said = model.respond(ModelRequest(OPENING, TOOLS, Seed(bytes(32)))).message
            seen = Message(
                Role.TOOL, "a picture", (Image("image/png", picture()),), call_id=said.calls[0].id
            )
            listed = Message(Role.TOOL, "p.png", call_id=said.calls[1].id)
            model.respond(ModelRequest((*OPENING, said, seen, listed), TOOLS, Seed(bytes(32))))
        assert server.refused == []
        return server.received[-1], server.memory


def again(client: Client) -> tuple[Server, Incoming]:
    """A server that has made the first reply, and the second request."""
    incoming, memory = record(client.name)
    return Server(play(Said("x")), memory=memory), incoming


def refusal(client: Client, change: Change) -> tuple[int, str]:
    """The status and the reason that the server has for a changed request."""
    server, incoming = again(client)
    body = json.loads(incoming.body)
    change(body)
    answer = server.respond(Incoming(incoming.path, incoming.headers, json.dumps(body).encode()))
    return answer.status, server.refused[-1] if server.refused else ""


def put(**fields: Any) -> Change:
    return lambda body: body.update(fields)


def is_result(part: Json) -> bool:
    kinds = ("tool_result", "function_call_output")
    return (
        part.get("type") in kinds
        or part.get("role") == "tool"
        or bool({"functionResponse", "toolResult"} & set(part))
    )


def drop_results(body: Json) -> None:
    """Without the tools' results, in any format."""
    for name in {"messages", "contents", "input"} & set(body):
        for turn in body[name]:
            for inner in {"content", "parts"} & set(turn):
                if isinstance(turn[inner], list):
                    turn[inner] = [part for part in turn[inner] if not is_result(part)]
        body[name] = [
            turn
            for turn in body[name]
            if not is_result(turn) and turn.get("content") != [] and turn.get("parts") != []
        ]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put(frequency="often"), "Extra inputs are not permitted"),
        (drop_results, "response|tool_result|toolResult|tool output"),
    ],
    ids=["unknown field", "unanswered call"],
)
def test_every_format_refuses(client: Client, change: Change, reason: str) -> None:
    status, said = refusal(client, change)
    assert (status, bool(re.search(reason, said))) == (400, True), said


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_long_conversation_is_refused_in_the_providers_words(client: Client) -> None:
    server, incoming = again(client)
    server.context = 100
    answer = server.respond(incoming)
    assert answer.status == 400
    assert re.search(b"too long|exceeds|maximum context length", answer.data)
    assert server.refused == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_same_request_is_accepted_as_it_was(client: Client) -> None:
    server, incoming = again(client)
    assert server.respond(incoming).status == 200
    assert server.refused == []

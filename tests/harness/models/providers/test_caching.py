"""Prompt caching, on the wire: where each provider's requests mark what its cache is to keep."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from itertools import pairwise

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, ModelRequest, Reply, Role
from harness.models.providers.base import ProviderModel
from harness.models.providers.openai import AzureModel, OpenAIModel
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Asked, Call, Said
from tests.conformance.server import serving
from tests.harness.openai_server import Json, Served, completion, serve
from tests.harness.served_model import served_model

KEY = "sk-do-not-tell"
SEED = Seed(bytes(32))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
pytestmark = pytest.mark.usefixtures("provider_keys")
CALLS = [("a1", "run_command", {"command": "ls"})]


def two_turns(
    model: ProviderModel, server: AbstractContextManager[Served], conversation: str = "c0ffee"
) -> tuple[list[Reply], list[Json]]:
    """The replies and requests of a conversation with one call."""
    with server as served:
        model._base_url = served.url
        first = model.respond(ModelRequest(OPENING, TOOLS, SEED, conversation=conversation))
        result = Message(Role.TOOL, "1", call_id="a1")
        messages = (*OPENING, first.message, result)
        second = model.respond(ModelRequest(messages, TOOLS, SEED, conversation=conversation))
        model.close()
        assert served.faults == []
    return [first, second], served.requests


@pytest.mark.parametrize(
    ("cls", "sends", "expected"),
    [(OpenAIModel, None, 0), (OpenAIModel, True, 2), (AzureModel, None, 2)],
)
def test_openai_s_cache_is_named_the_conversation_where_the_server_takes_it(
    cls: type[OpenAIModel], sends: bool | None, expected: int
) -> None:
    model = served_model(cls, key=KEY, **({} if sends is None else {"send_cache_key": sends}))
    _, requests = two_turns(model, serve(completion("", CALLS), completion("x")))
    assert [each.get("prompt_cache_key") for each in requests].count("c0ffee") == expected
    own = served_model(OpenAIModel, "https://api.openai.com/v1", KEY)
    request = ModelRequest(OPENING, TOOLS, SEED, conversation="c0ffee")
    assert own._settings(request)["openai_prompt_cache_key"] == "c0ffee"


def test_anthropic_s_requests_are_marked_at_two_points_that_move_on() -> None:
    look = Said("Look.", (Call("run_command", {"command": "ls"}),))
    messages: tuple[Message, ...] = OPENING
    with serving(play(look, Said("x"))) as server, BY_NAME["messages"].model(server) as model:
        for _ in range(2):
            said = model.respond(ModelRequest(messages, TOOLS, SEED, conversation="c0ffee")).message
            messages = (
                *messages,
                said,
                *(Message(Role.TOOL, "1", call_id=c.id) for c in said.calls),
            )
    assert [json.dumps(each).count('"cache_control"') for each in server.requests] == [2, 3]


def wide_turn(asked: Asked) -> Said:
    """Twelve calls at once, which with their results are more than 20 blocks."""
    return Said("", tuple(Call("run_command", {"command": f"ls {n}"}) for n in range(12)))


@pytest.mark.parametrize("name", ["messages", "vertex_messages", "converse"])
def test_a_wide_turn_keeps_the_cache(name: str) -> None:
    messages = (Message(Role.SYSTEM, "Rules. " * 2000), Message(Role.USER, "Find x."))
    with serving(wide_turn) as server, BY_NAME[name].model(server) as model:
        for turn in range(4):
            seed = SEED.child(turn)
            said = model.respond(ModelRequest(messages, TOOLS, seed, conversation="c0ffee")).message
            results = (Message(Role.TOOL, "x" * 400, call_id=call.id) for call in said.calls)
            messages = (*messages, said, *results)
        assert server.refused == []
    # A request reads all that the one before wrote or read.
    for before, after in pairwise(server.tokens):
        assert after.cached >= before.cached + before.written > 2000

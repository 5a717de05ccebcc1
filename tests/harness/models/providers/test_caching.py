"""Prompt caching, on the wire: where each provider's requests mark what its cache is to keep."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, ModelRequest, Reply, Role
from harness.models.providers.anthropic import AnthropicModel
from harness.models.providers.base import ProviderModel
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.openai import AzureModel, OpenAIModel
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Asked, Call, Said
from tests.conformance.server import serving
from tests.harness.dialects import ANTHROPIC, BEDROCK, KEY, Dialect
from tests.harness.openai_server import Answer, Json, Served, completion, serve
from tests.harness.served_model import served_model

SEED = Seed(bytes(32))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
CALLS = [("a1", "run_command", {"command": "ls"})]
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


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


def unmarked(value: Any, mark: str) -> Any:
    """The value without the marks."""
    if isinstance(value, dict):
        return {key: unmarked(each, mark) for key, each in value.items() if key != mark}
    if isinstance(value, list):
        return [unmarked(each, mark) for each in value if not (mark in each and len(each) == 1)]
    return value


def check_marks(requests: list[Json], mark: str, later: int) -> None:
    """Rules and last message are marked, and each request extends the one before, byte by byte but
    for the marks, of which the second request has ``later``."""
    first, second = requests
    for request, marks in zip(requests, (2, later), strict=True):
        assert json.dumps(request).count(f'"{mark}"') == marks
        assert mark in request["system"][-1]
        assert mark in request["messages"][-1]["content"][-1]
    for key in ("system", "tools", "toolConfig"):
        assert first.get(key) == second.get(key)
    older, newer = unmarked(first["messages"], mark), unmarked(second["messages"], mark)
    assert json.dumps(newer)[: len(json.dumps(older)) - 1] == json.dumps(older)[:-1]


def script(dialect: Dialect) -> tuple[Answer, Answer]:
    return dialect.speak("Look.", CALLS, "hm"), dialect.speak("x", [], "")


def test_anthropic_s_requests_are_marked_at_two_points_that_move_on() -> None:
    model = served_model(AnthropicModel, key=KEY, model="claude-sonnet-4-5", max_tokens=1000)
    _, requests = two_turns(model, ANTHROPIC.serve(*script(ANTHROPIC)))
    check_marks(requests, "cache_control", later=3)
    assert "cache_control" in requests[1]["messages"][0]["content"][-1]


def test_bedrock_s_requests_are_marked_for_models_that_take_marks() -> None:
    claude = served_model(BedrockModel, key="", model=CLAUDE, max_tokens=1000)
    server = replace(BEDROCK, path="/model/.*/converse").serve(*script(BEDROCK))
    check_marks(two_turns(claude, server)[1], "cachePoint", later=2)
    other = served_model(BedrockModel, key="", max_tokens=1000)
    _, requests = two_turns(other, BEDROCK.serve(*script(BEDROCK)))
    assert "cachePoint" not in json.dumps(requests)


def test_a_request_on_its_own_pays_for_no_cache() -> None:
    model = served_model(AnthropicModel, key=KEY, model="claude-sonnet-4-5", max_tokens=1000)
    _, requests = two_turns(model, ANTHROPIC.serve(*script(ANTHROPIC)), conversation="")
    assert "cache_control" not in json.dumps(requests)


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


def test_reads_and_writes_of_a_cache_are_counted() -> None:
    usage = {
        "input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    }  # fmt: skip
    answers = []
    for answer in script(ANTHROPIC):
        assert isinstance(answer.body, dict)
        answers.append(Answer({**answer.body, "usage": usage}))
    model = served_model(AnthropicModel, key=KEY, model="claude-sonnet-4-5", max_tokens=1000)
    replies, _ = two_turns(model, ANTHROPIC.serve(*answers))
    counted = replies[0].usage
    assert (counted.input_tokens, counted.output_tokens) == (100, 20)
    assert (counted.cached_tokens, counted.cache_write_tokens) == (60, 30)


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

"""A model behind an OpenAI-compatible server, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.errors import AttemptFailed
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, Usage
from harness.models.providers.openai import AzureModel, OpenAIModel
from harness.models.providers.retry import pause, try_again
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.harness.served_model import served_model

KEY = "sk-do-not-tell"
SEED = Seed(bytes(32))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))


@contextmanager
def model_at(
    served: Served, pauses: list[float] | None = None, **sampling: Any
) -> Iterator[OpenAIModel]:
    sleep = (lambda seconds: None) if pauses is None else pauses.append
    model = served_model(OpenAIModel, served.url, KEY, sleep, **sampling)
    try:
        yield model
    finally:
        model.close()


def respond(
    *script: Answer, messages: Sequence[Message] = OPENING, tools: bool = True, **sampling: Any
) -> tuple[Reply, Json]:
    """One reply from a server that says this, and the last request that it was sent."""
    with serve(*script) as served, model_at(served, **sampling) as model:
        reply = model.respond(ModelRequest(tuple(messages), TOOLS if tools else (), SEED))
        assert served.faults == []
        assert served.script == []
        return reply, served.requests[-1]


def test_the_tools_are_sent_as_they_are_and_none_on_a_tool_free_turn() -> None:
    _, request = respond(completion("x"))
    sent = {each["function"]["name"]: each["function"] for each in request["tools"]}
    assert list(sent) == [tool.name for tool in TOOLS]
    for tool in TOOLS:
        assert sent[tool.name]["description"] == tool.description
        assert sent[tool.name]["parameters"]["required"] == list(tool.parameters["required"])
    assert "tools" not in respond(completion("x"), tools=False)[1]


def test_malformed_arguments_reach_the_tools_as_they_were_sent() -> None:
    answer = completion(None, [("a1", "run_command", {})])
    assert isinstance(answer.body, dict)
    function = answer.body["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = '{"command": "ls'
    assert respond(answer)[0].message.calls == (ToolCall("a1", "run_command", '{"command": "ls'),)


def test_reasoning_is_kept_and_sent_back_only_where_the_server_wants_it() -> None:
    reply, _ = respond(completion("x", reasoning_content="thinking hard"))
    assert (reply.message.reasoning, reply.message.text) == ("thinking hard", "x")
    messages = (*OPENING, reply.message, Message(Role.USER, "Go on."))
    _, request = respond(completion("y"), messages=messages, reasoning_field="reasoning_content")
    assert request["messages"][2]["reasoning_content"] == "thinking hard"
    _, request = respond(completion("y"), messages=messages)
    assert "thinking hard" not in json.dumps(request)


def test_effort_and_seed_are_sent_where_they_are_set() -> None:
    _, request = respond(completion("x"), send_seed=True, reasoning_effort="low")
    assert request["reasoning_effort"] == "low"
    assert request["seed"] == SEED.child("server").rng().integer(0, 2**31 - 1)


def test_tokens_that_the_server_does_not_count_are_unknown_not_zero() -> None:
    assert respond(completion("x", usage={}))[0].usage == Usage(None, None)


def test_text_that_no_file_could_hold_is_made_writable() -> None:
    reply, _ = respond(completion("half a pair: \ud800", [("a1", "read_file", {"path": "\udfff"})]))
    reply.message.text.encode()
    reply.message.calls[0].arguments.encode()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (completion(None, refusal="I would rather not."), "I would rather not."),
        (failure(400, "content_filter"), ""),
        (completion("partly", finish="content_filter"), "partly"),
    ],
)
def test_a_refusal_is_the_models_answer_not_a_failure(answer: Answer, text: str) -> None:
    reply, _ = respond(answer)
    assert (reply.finish, reply.message.text, reply.failed) == ("refusal", text, ())


def test_a_passing_failure_is_survived_and_counted() -> None:
    pauses: list[float] = []
    busy = failure(429, "rate_limit_exceeded", (("Retry-After", "7"),))
    with serve(busy, failure(503), completion("x")) as served, model_at(served, pauses) as model:
        reply = model.respond(ModelRequest(OPENING, (), SEED))
    assert (reply.message.text, reply.retries) == ("x", 2)
    assert pauses[0] == 7.0
    assert 1.0 <= pauses[1] <= 3.0


def test_each_class_has_its_patience() -> None:
    assert try_again(["overload"] * 3, 3)
    assert not try_again(["overload"] * 4, 3)
    assert try_again(["overload", "timeout", "malformed"], 3)
    assert not try_again(["timeout", "overload", "timeout"], 3)
    assert not try_again(["malformed"], 0)
    assert try_again(["bad_request"], 3)
    assert not try_again(["bad_request"] * 2, 3), "the request itself is at fault"
    for kind in ("content_filter", "quota", "auth", "context_length"):
        assert not try_again([kind], 9)


def test_a_reply_has_its_id_and_the_fingerprint_of_what_served_it() -> None:
    body = completion("x").body
    assert isinstance(body, dict)
    reply, _ = respond(Answer({**body, "system_fingerprint": "fp_44709d6fcb"}))
    assert (reply.response_id, reply.fingerprint) == ("chatcmpl-1", "fp_44709d6fcb")
    strange, _ = respond(Answer({**body, "system_fingerprint": None}))
    assert strange.fingerprint == ""


def test_a_temperature_is_sent_to_a_model_that_refuses_it() -> None:
    with serve(completion("x")) as served:
        model = served_model(
            OpenAIModel, served.url, KEY, model="gpt-5", temperature=0.5, top_p=0.9
        )
        model.respond(ModelRequest(OPENING, (), SEED))
        model.close()
    assert [served.requests[0][name] for name in ("temperature", "top_p")] == [0.5, 0.9]


def test_pauses_grow_with_jitter_from_the_seed_alone() -> None:
    assert pause(1.0, 0, None, SEED) == pause(1.0, 0, None, SEED)
    for tried in range(4):
        seen = {pause(1.0, tried, None, SEED.child(n)) for n in range(50)}
        assert len(seen) == 50
        assert 2**tried * 0.5 <= min(seen) < max(seen) <= 2**tried * 1.5
    assert pause(1.0, 9, None, SEED) == 60.0
    assert pause(1.0, 9, 900.0, SEED) == 900.0


def test_threads_share_one_model() -> None:
    def echo(request: Json) -> Answer:
        return completion(request["messages"][-1]["content"])

    said: dict[int, str] = {}
    with serve(*[echo] * 24) as served, model_at(served) as model:

        def ask(number: int) -> None:
            messages = (*OPENING, Message(Role.USER, f"number {number}"))
            reply = model.respond(ModelRequest(messages, (), SEED))
            said[number] = reply.message.text
            assert f"number {number}".encode() in reply.raw

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == {number: f"number {number}" for number in range(24)}


def test_a_closed_model_opens_again() -> None:
    with serve(completion("x"), completion("y")) as served, model_at(served) as model:
        assert model.respond(ModelRequest(OPENING, (), SEED)).message.text == "x"
        model.close()
        model.close()
        assert model.respond(ModelRequest(OPENING, (), SEED)).message.text == "y"


def test_the_responses_protocol_asks_for_sealed_reasoning_where_a_model_reasons() -> None:
    request = ModelRequest(OPENING, TOOLS, SEED, conversation="c0ffee")
    made = {"protocol": "responses", "reasoning_effort": "high", "max_tokens": 500}
    sealed = {**made, "extra_body": {"service_tier": "flex"}}
    protocol: Json = {"path": "/v1/responses", "check": lambda _: []}
    with serve(always=lambda _: Answer({"error": "?"}, 400), **protocol) as served:
        for cls, settings in ((AzureModel, sealed), (OpenAIModel, {"protocol": "responses"})):
            model = served_model(cls, served.url, KEY, **settings)
            with closing(model), pytest.raises(AttemptFailed):
                model.respond(request)
    sent, _, plain, _ = served.requests
    assert (sent["include"], sent["store"]) == (["reasoning.encrypted_content"], False)
    assert (sent["reasoning"], sent["max_output_tokens"]) == ({"effort": "high"}, 500)
    assert (sent["prompt_cache_key"], sent["service_tier"]) == ("c0ffee", "flex")
    assert not {"include", "reasoning"} & set(plain)

"""Whose failure a response is: by its status, words and end; and what is read of odd shapes."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.errors import AttemptFailed
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, Usage
from harness.models.providers import base
from harness.models.providers.bodies import Expected, read_usage, sendable
from harness.models.providers.openai import OpenAIModel
from harness.models.providers.retry import ProviderError
from harness.models.providers.verdict import BAD_CALL, check_error, read_body
from harness.spending.budget import sum_spend
from harness.spending.prices import Price
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME
from tests.conformance.conversation import Call, Fault, Said
from tests.conformance.faults import SHAPES
from tests.conformance.server import FORMATS, serving
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.harness.served_model import served_model

SEED = Seed(bytes(32))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
LATER = (
    *OPENING,
    Message(Role.ASSISTANT, "", calls=(ToolCall("c1", "run_command", '{"command": "ls'),)),
    Message(Role.TOOL, "no", call_id="c1"),
)
CASES = yaml.safe_load(Path(__file__).with_name("verdict_cases.yaml").read_text())


def kind_of(status: int, body: Any) -> str:
    with pytest.raises(ProviderError) as failed:
        check_error(body, status)
    return failed.value.kind


def test_an_error_is_known_by_its_code_or_words_in_any_form() -> None:
    found = []
    for kind, status, error in CASES["errors"]:
        whole = error if isinstance(error, dict) else {"error": {"message": error}}
        forms = [whole, {**whole, "object": "error"}]
        forms += [{"error": error}, {"detail": error}] if isinstance(error, str) else []
        event = read_body(f"event: error\ndata: {json.dumps(whole)}\n\n".encode())
        forms += [[whole], *[event] * (status == 200)] if "error" in whole else []
        found += [(kind_of(status, form), kind, form) for form in forms]
    assert [each for each in found if each[0] != each[1]] == []


PRICE = Price("p", "*", Decimal(1), Decimal("0.1"), Decimal("1.25"), Decimal(10), "", "")


@pytest.mark.parametrize(("protocol", "billed", "counts"), CASES["usage"])
def test_the_cost_is_that_of_the_server_s_own_bill(
    protocol: str, billed: tuple[int, ...], counts: Json
) -> None:
    fresh, cached, written, output = billed
    usage = read_usage(protocol, {"usageMetadata" if protocol == "gemini" else "usage": counts})
    assert (usage.input_tokens, usage.output_tokens) == (fresh + cached + written, output)
    bill = (fresh + Decimal("0.1") * cached + Decimal("1.25") * written + 10 * output) / 1_000_000
    assert PRICE.cost(usage) == bill


def test_counts_that_contradict_each_other_are_unknown_and_bounded() -> None:
    details = {"reasoning_tokens": 500}
    counts = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    usage = read_usage("chat", {"usage": {**counts, "completion_tokens_details": details}})
    assert (usage.output_tokens, usage.output_bound, PRICE.cost(usage)) == (None, 510, None)
    assert sum_spend([usage], PRICE).usd == PRICE.cost(Usage(100, 510))
    partial = read_usage("chat", {"choices": ["x" * 400], "usage": {"prompt_tokens": 100}})
    assert (partial.input_tokens, partial.output_tokens) == (100, None)
    assert (partial.output_bound or 0) > 100


@pytest.mark.usefixtures("provider_keys")
@pytest.mark.parametrize("name", FORMATS)
def test_readable_shapes_are_read_and_ids_are_unique(name: str) -> None:
    look = Said("Look.", (Call("run_command", {"command": "ls"}), Call("view_image", {"path": ""})))
    messages = [*OPENING]
    with (
        serving(play(*(Fault(kind, look) for kind in SHAPES))) as server,
        BY_NAME[name].model(server, max_tokens=4096) as model,
    ):
        for _ in SHAPES:
            reply = model.respond(ModelRequest(tuple(messages), TOOLS, SEED))
            said = [(call.name, json.loads(call.arguments)) for call in reply.message.calls]
            assert said == [(call.name, call.arguments) for call in look.calls]
            assert (reply.message.text, reply.failed) == ("Look.", ())
            assert reply.raw == server.answers[-1].data
            results = [Message(Role.TOOL, "x", call_id=call.id) for call in reply.message.calls]
            messages += [reply.message, *results]
    assert server.refused == []
    assert len({call.id for message in messages for call in message.calls}) == 2 * len(SHAPES)


def respond(*script: Answer, messages: Any = LATER, **settings: Any) -> tuple[Reply, list[Json]]:
    with serve(*script) as served:
        model = served_model(OpenAIModel, served.url, sleep=lambda _: None, **settings)
        try:
            return model.respond(ModelRequest(tuple(messages), TOOLS, SEED)), served.requests
        finally:
            model.close()


def test_a_call_that_its_server_cannot_parse_is_a_call_of_the_model_s() -> None:
    error = {"code": "tool_use_failed", "failed_generation": "<function=read_file{"}
    reply, _ = respond(Answer({"error": error}, 400))
    (call,) = reply.message.calls
    assert (reply.finish, call.name) == (BAD_CALL, "read_file")
    assert call.arguments == error["failed_generation"]
    again = (*LATER, reply.message, Message(Role.TOOL, "not valid JSON", call_id=call.id))
    _, (request,) = respond(completion("x"), messages=again)
    calls = [call for m in request["messages"] for call in m.get("tool_calls", ())]
    for made in calls:
        assert set(json.loads(made["function"]["arguments"])) == {"arguments"}
    assert sendable("") == "{}"


def test_recitation_is_tried_again_and_is_a_refusal_if_it_recurs() -> None:
    cut = completion("It was", finish="recitation")
    assert respond(cut, completion("x"))[0].failed == ("recitation",)
    reply, _ = respond(*[cut] * 3, retries=2)
    assert (reply.finish, reply.usage) == ("refusal", Usage(100, 20))


def test_a_request_that_fails_by_itself_for_a_minute_is_the_model_s_while_others_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = itertools.count(step=25.0)
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    strange = Answer({"error": {"message": "Strange"}}, 500)
    request = ModelRequest(LATER, TOOLS, SEED)
    with serve(strange, strange, strange, completion("x"), strange) as served:
        model = served_model(OpenAIModel, served.url, retries=0)
        for _ in range(3):
            with pytest.raises(AttemptFailed, match="overload"):
                model.respond(request)
        model.respond(ModelRequest(OPENING, TOOLS, SEED))
        assert model.respond(request).finish == BAD_CALL
        model.close()


def test_a_request_beyond_the_stated_context_is_too_long_whatever_the_words() -> None:
    long = (*LATER, Message(Role.USER, "word " * 5000))
    for status in (400, 413, 422, 500):
        with pytest.raises(AttemptFailed, match="context_length"):
            respond(Answer({"error": {"message": "?"}}, status), messages=long, context=4096)
    with pytest.raises(AttemptFailed, match="bad_request"):
        respond(*[Answer({"error": {"message": "?"}}, 400)] * 2, messages=long, context=40_960)


def test_a_refusal_at_the_last_of_the_tries_is_asked_once_more() -> None:
    refused = Answer({"error": {"message": "?"}}, 400)
    reply, _ = respond(*[Answer({}, 421)] * 2, refused, completion("x"), retries=2)
    assert reply.failed == ("overload", "overload", "bad_request")
    with pytest.raises(AttemptFailed, match="bad_request"):
        respond(Answer({}, 421), refused, refused, retries=1)


@pytest.mark.parametrize(("finish", "message"), CASES["finishes"])
def test_a_reply_without_an_answer_says_where_it_went(finish: str, message: Json) -> None:
    assert respond(completion(**message))[0].finish == finish


@pytest.mark.parametrize("name", CASES["names"])
def test_names_of_tools_are_read_without_the_marks_of_harmony(name: str) -> None:
    reply, _ = respond(completion(None, [("c9", name, {"command": "ls"})]))
    assert reply.message.calls[0].name == "run_command"


@pytest.mark.parametrize(("protocol", "value"), CASES["unread"])
def test_a_reply_of_which_nothing_is_read_is_no_answer(protocol: str, value: Json) -> None:
    expected = Expected(protocol, ModelRequest(OPENING, TOOLS, SEED))
    with pytest.raises(ProviderError, match="malformed"):
        expected.read(200, {}, json.dumps(value).encode())


@pytest.mark.parametrize(("kind", "status", "text"), CASES["bodies"])
def test_a_body_that_is_no_reply_is_a_failure_of_its_kind(
    kind: str, status: int, text: str
) -> None:
    expected = Expected("chat", ModelRequest(OPENING, TOOLS, SEED))
    with pytest.raises(ProviderError, match=kind):
        expected.read(status, {}, text.encode("latin-1"))

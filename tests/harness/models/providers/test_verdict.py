"""Whose failure a response is: by its status, words and end; and what is read of odd shapes."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.errors import AttemptFailed
from harness.model import Message, ModelRequest, Reply, Role, ToolCall, Usage
from harness.models.providers import base
from harness.models.providers.bodies import read_usage, sendable
from harness.models.providers.openai import OpenAIModel
from harness.models.providers.retry import ProviderError
from harness.models.providers.verdict import BAD_CALL, check_error, read_body
from harness.spending.budget import sum_spend
from harness.spending.prices import Price
from tests.conformance.agents import play
from tests.conformance.clients import BY_NAME, ENVIRONMENT
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
WORDS = [
    ("context_length", 400, "input length exceeds the context length"),
    ("context_length", 500, "Context size has been exceeded."),
    ("context_length", 400, "Your request exceeded model token limit: 131072"),
    ("context_length", 400, "InvalidParameter: Range of input length should be [1, 98304]"),
    ("context_length", 400, "The input token count (9) exceeds the maximum number of tokens (8)."),
    ("context_length", 400, "keep the first 9000 tokens when context the overflows"),
    ("context_length", 400, "default_max_tokens = max_seq_len (8192) - splited_prompt_len (8292) "
     "should be greater than 0: not enough"),
    ("context_length", 400, "Prompt length 9000 exceeds context window 8192"),
    ("context_length", 400, "ContextWindowExceededError: OpenAIException - too many tokens"),
    ("context_length", 413, "Request Entity Too Large"),
    ("context_length", 200, "This model's maximum context length is 4096 tokens"),
    ("rate_limit", 400, "Too many input tokens per minute: the limit is 30,000, reduce the prompt"),
    ("rate_limit", 429, "You exceeded your current rate limit of input tokens"),
    ("rate_limit", 200, "Rate limit exceeded: free-models-per-min"),
    ("quota", 400, "You have reached your specified API usage limits. Regain access on 2026-12-01"),
    ("quota", 400, "Your credit balance is too low to access the API"),
    ("quota", 403, "Key limit exceeded (total limit)"),
    ("quota", 429, "insufficient_quota: check your plan and billing details"),
    ("quota", 429, "Your team has used all available credits or reached its monthly limit"),
    ("refusal", 400, "Output blocked by content filtering policy"),
    ("refusal", 400, "Content Exists Risk"),
    ("refusal", 400, "DataInspectionFailed: Output data may contain inappropriate content."),
    ("refusal", 403, "Your input was flagged: requires moderation"),
    ("refusal", 400, "Invalid prompt: your prompt was flagged as violating our usage policy"),
    ("auth", 400, "This organization has been disabled for violations of the usage policy"),
    ("auth", 403, "You have no access to this model"),
    ("bad_call", 400, "tool_use_failed: Failed to call a function. See 'failed_generation'"),
    ("bad_call", 424, "Model produced invalid sequence as part of ToolUse"),
    ("bad_call", 500, 'Failed to parse input at pos 12: <tool_call>{"name": run'),
    ("bad_call", 500, "error parsing tool call: raw='{', err=unexpected end of JSON input"),
    ("bad_request", 400, "Unsupported value: 'temperature' does not support 0.5"),
    ("bad_request", 400, "tools.0.function: invalid schema"),
    ("overload", 500, "The server had an error while processing your request"),
    ("no_reply", 200, "Something else"),
]  # fmt: skip


def kind_of(status: int, body: Any) -> str:
    with pytest.raises(ProviderError) as failed:
        check_error(body, status)
    return failed.value.kind


@pytest.mark.parametrize(("kind", "status", "words"), WORDS)
def test_an_error_is_known_by_its_words_in_any_form(kind: str, status: int, words: str) -> None:
    for body in ({"error": {"message": words}}, {"error": words}, [{"error": {"message": words}}]):
        assert kind_of(status, body) == kind
    assert kind_of(status, {"detail": words, "object": "error"}) == kind


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("auth", {"code": 401}), ("quota", {"code": "402"}), ("rate_limit", {"status": 429}),
        ("overload", {"code": 502, "message": "Upstream"}), ("overload", {"type": "api_error"}),
        ("rate_limit", {"status": "RESOURCE_EXHAUSTED"}), ("refusal", {"code": "1301"}),
        ("bad_request", {"code": 3, "message": "a"}), ("quota", {"type": "billing_error"}),
    ],
)  # fmt: skip
def test_an_error_within_a_good_status_counts_by_its_code(kind: str, error: Json) -> None:
    assert kind_of(200, {"error": error}) == kind
    event = f"event: error\ndata: {json.dumps({'error': error})}\n\n"
    assert kind_of(200, read_body(event.encode())) == kind


# Input beside the cache, read from it, written to it, and output of each reply.
DIALECTS: list[tuple[str, tuple[int, int, int, int], Json]] = [
    ("chat", (1000, 0, 0, 100_010), {  # xAI: reasoning beside the completion
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 101_010,
        "completion_tokens_details": {"reasoning_tokens": 100_000}}),
    ("chat", (1000, 0, 0, 510), {  # Gemini by Chat Completions: in the total alone
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1510}),
    ("chat", (100, 900, 0, 10), {  # DeepSeek
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
        "prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100}),
    ("chat", (100, 900, 0, 10), {  # Moonshot
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
        "cached_tokens": 900}),
    ("chat", (50, 900, 50, 10), {  # Anthropic's counts in a gateway: the cache beside the prompt
        "prompt_tokens": 50, "completion_tokens": 10, "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50, "total_tokens": 1010}),
    ("responses", (100, 900, 0, 60), {
        "input_tokens": 1000, "output_tokens": 60, "total_tokens": 1060,
        "input_tokens_details": {"cached_tokens": 900},
        "output_tokens_details": {"reasoning_tokens": 50}}),
    ("messages", (100, 800, 100, 60), {
        "input_tokens": 100, "output_tokens": 60, "cache_read_input_tokens": 800,
        "cache_creation_input_tokens": 100, "cache_creation": {"ephemeral_5m_input_tokens": 100}}),
    ("gemini", (100, 900, 0, 60), {
        "promptTokenCount": 1000, "candidatesTokenCount": 10, "thoughtsTokenCount": 50,
        "cachedContentTokenCount": 900, "totalTokenCount": 1060}),
    ("converse", (100, 800, 100, 60), {
        "inputTokens": 100, "outputTokens": 60, "totalTokens": 160, "cacheReadInputTokens": 800,
        "cacheWriteInputTokens": 100}),
    ("chat", (1000, 0, 0, 20), {"prompt_tokens": 1000, "total_tokens": 1020}),
]  # fmt: skip
PRICE = Price("p", "*", Decimal(1), Decimal("0.1"), Decimal("1.25"), Decimal(10), "", "")


@pytest.mark.parametrize(("protocol", "billed", "counts"), DIALECTS)
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


@pytest.mark.parametrize("name", FORMATS)
def test_readable_shapes_are_read_and_ids_are_unique(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    look = Said(
        "Look.", (Call("run_command", {"command": "ls"}), Call("view_image", {"path": "p"}))
    )
    messages = [*OPENING]
    with (
        serving(play(*(Fault(kind, look) for kind in SHAPES))) as server,
        BY_NAME[name].model(server, max_tokens=4096) as model,
    ):
        for _ in SHAPES:
            reply = model.respond(ModelRequest(tuple(messages), TOOLS, SEED))
            said = [(call.name, json.loads(call.arguments)) for call in reply.message.calls]
            assert said == [(call.name, call.arguments) for call in look.calls]
            assert (reply.message.text, reply.failed, reply.raw) == (
                "Look.", (), server.answers[-1].data,
            )  # fmt: skip
            results = [Message(Role.TOOL, "x", call_id=call.id) for call in reply.message.calls]
            messages += [reply.message, *results]
    assert server.refused == []
    ids = [call.id for message in messages for call in message.calls]
    assert len(set(ids)) == 2 * len(SHAPES)


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
    assert (reply.finish, call.name, call.arguments) == (
        BAD_CALL,
        "read_file",
        "<function=read_file{",
    )
    again = (*LATER, reply.message, Message(Role.TOOL, "not valid JSON", call_id=call.id))
    _, (request,) = respond(completion("x"), messages=again)
    sent = [
        c["function"]["arguments"] for m in request["messages"] for c in m.get("tool_calls", ())
    ]
    assert [json.loads(each) for each in sent] == [
        {"unparsed": '{"command": "ls'}, {"unparsed": "<function=read_file{"},
    ]  # fmt: skip
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
        respond(Answer({"error": {"message": "?"}}, 400), messages=long, context=40_960)


@pytest.mark.parametrize(
    ("message", "finish"),
    [
        ({"text": "", "reasoning_content": "It is 1."}, "reasoning_only"),
        ({"text": "<think>It is 1."}, "open_thought"),
        ({"text": "<think>It is</think>1"}, "stop"),
    ],
)
def test_a_reply_without_an_answer_says_where_it_went(message: Json, finish: str) -> None:
    assert respond(completion(**message))[0].finish == finish


@pytest.mark.parametrize(
    "name",
    ["functions.run_command", "run_command<|channel|>commentary", "to=functions.run_command"],
)
def test_names_of_tools_are_read_without_the_marks_of_harmony(name: str) -> None:
    reply, _ = respond(completion(None, [("c9", name, {"command": "ls"})]))
    assert reply.message.calls[0].name == "run_command"

"""OpenAI's Responses protocol, over real HTTP: the server keeps nothing, and hidden reasoning comes
back to it in the encrypted form that it sent."""

from __future__ import annotations

from typing import Any

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Image, Message, ModelRequest, Role, ToolCall, Usage
from harness.models.providers.openai import AzureModel, OpenAIModel
from harness.spending.purchases import PAID_CALL_CODEC, PaidCall
from tests.harness.openai_server import Answer, Json, serve
from tests.harness.paid_attempt import CHARGE
from tests.harness.served_model import served_model

KEY = "sk-do-not-tell"
SEED = Seed(bytes(32))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}
CALL: Json = {
    "type": "function_call", "id": "fc_1", "call_id": "a1", "name": "view_image",
    "arguments": '{"path":"p.png"}', "status": "completed",
}  # fmt: skip
TEXT: Json = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}  # fmt: skip


def response(*items: Json) -> Answer:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 7},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    return Answer(
        {
            "id": "resp_1", "object": "response", "created_at": 1_790_000_000,
            "model": "served-model", "status": "completed", "output": list(items),
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage,
        }
    )  # fmt: skip


def check(request: Json) -> list[str]:
    """The rules of a server that keeps nothing."""
    faults = [] if request.get("store") is False else ["asked to store"]
    calls = [item["call_id"] for item in request["input"] if item.get("type") == "function_call"]
    done = [item.get("call_id") for item in request["input"] if "output" in item]
    if calls != done:
        faults.append(f"calls {calls} with results for {done}")
    return faults + (["a reference to kept state"] if "previous_response_id" in request else [])


def converse(cls: type[OpenAIModel], **sampling: Any) -> tuple[list[Json], list[Any]]:
    with serve(response(REASONING, CALL), response(TEXT), path="/v1/responses", check=check) as at:
        model = served_model(cls, at.url, KEY, protocol="responses", **sampling)
        first = model.respond(ModelRequest(OPENING, TOOLS, SEED, conversation="c0ffee"))
        seen = Message(Role.TOOL, "image/png", (Image("image/png", PNG),), call_id="a1")
        messages = (*OPENING, first.message, seen)
        second = model.respond(ModelRequest(messages, TOOLS, SEED, conversation="c0ffee"))
        model.close()
    assert at.faults == []
    return at.requests, [first, second]


def test_hidden_reasoning_survives_between_turns() -> None:
    requests, (first, second) = converse(
        OpenAIModel, reasoning_effort="high", max_tokens=500, send_cache_key=True
    )
    assert first.message.calls == (ToolCall("a1", "view_image", '{"path":"p.png"}'),)
    assert first.usage == Usage(100, 20, 40, 7, 5)
    assert (first.response_id, first.served_version) == ("resp_1", "served-model")
    assert second.message.text == "x"
    call = PaidCall(CHARGE, first)
    assert PAID_CALL_CODEC.decode(PAID_CALL_CODEC.encode(call)) == call
    for request in requests:
        assert request["include"] == ["reasoning.encrypted_content"]
        assert request["reasoning"] == {"effort": "high"}
        assert request["max_output_tokens"] == 500
        assert request["prompt_cache_key"] == "c0ffee"
    assert requests[1]["input"][: len(requests[0]["input"])] == requests[0]["input"]
    assert REASONING in requests[1]["input"]


def test_a_model_that_does_not_reason_is_not_asked_for_reasoning() -> None:
    requests, _ = converse(OpenAIModel)
    assert "include" not in requests[0]
    assert "reasoning" not in requests[0]


def test_a_deployment_of_azure_speaks_it_too() -> None:
    requests, _ = converse(AzureModel, reasoning_effort="low", extra_body={"service_tier": "flex"})
    assert REASONING in requests[1]["input"]
    assert requests[0]["prompt_cache_key"] == "c0ffee"
    assert requests[0]["service_tier"] == "flex"

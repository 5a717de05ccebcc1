"""The last question on the wire of each provider: the tools stay, since the conversation has calls,
and the model may not call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.model import Message, Model, ModelRequest, Role, ToolCall
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.openai import OpenAIModel
from harness.models.text_tool_calls import TextCalls
from tests.harness.dialects import ANTHROPIC, BEDROCK, GOOGLE, Dialect
from tests.harness.openai_server import Json, Served, completion, serve
from tests.harness.script import ANSWER, Playback, say
from tests.harness.served_model import served_model

SEED = Seed(bytes(32))
ONCE: dict[str, Any] = {"retries": 0, "max_tokens": 1000}  # few enough for a reply in one piece
CALL = ToolCall("c1", "run_command", '{"command": "ls"}')
CONVERSATION = (
    Message(Role.SYSTEM, "Rules."),
    Message(Role.USER, "Find x."),
    Message(Role.ASSISTANT, "", calls=(CALL,)),
    Message(Role.TOOL, "a.txt", call_id="c1"),
    Message(Role.USER, "Give your best answer."),
)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def ask(model: Model, choice: Any = "none") -> Any:
    return model.respond(ModelRequest(CONVERSATION, TOOLS, SEED, tool_choice=choice))


@contextmanager
def asked(dialect: Dialect, version: str = "asked-model") -> Iterator[tuple[Model, Served]]:
    answers = [dialect.speak(ANSWER, [], "") for _ in range(2)]
    path = dialect.path.replace("asked-model", "[^/]*")
    with serve(*answers, root="", check=dialect.check, path=path,
               key_header=dialect.key_header) as served:  # fmt: skip
        model = served_model(dialect.model, served.url, dialect.given, model=version, **ONCE)
        yield model, served
        model.close()


def tools_of(request: Json) -> list[str]:
    config = request.get("toolConfig", request)
    given: list[Json] = config["tools"]
    if "functionDeclarations" in given[0]:
        return [each["name"] for tool in given for each in tool["functionDeclarations"]]
    return [(tool.get("toolSpec") or tool.get("function") or tool)["name"] for tool in given]


NAMES = [tool.name for tool in TOOLS]


def test_openai() -> None:
    with serve(completion(ANSWER), completion(ANSWER)) as served:
        model = served_model(OpenAIModel, served.url, **ONCE)
        ask(model)
        ask(model, "auto")
        model.close()
    closed, opened = served.requests
    assert (closed["tool_choice"], opened["tool_choice"]) == ("none", "auto")
    assert tools_of(closed) == tools_of(opened) == NAMES


def test_anthropic() -> None:
    with asked(ANTHROPIC) as (model, served):
        ask(model)
        ask(model, "auto")
    closed, opened = served.requests
    assert closed["tool_choice"] == {"type": "none"}
    assert opened.get("tool_choice", {"type": "auto"})["type"] == "auto"
    assert closed["tools"] == opened["tools"]
    assert tools_of(closed) == NAMES


def test_google() -> None:
    with asked(GOOGLE) as (model, served):
        ask(model)
        ask(model, "auto")
    closed, opened = served.requests
    assert closed["toolConfig"]["functionCallingConfig"]["mode"] == "NONE"
    assert opened["toolConfig"]["functionCallingConfig"]["mode"] == "AUTO"
    assert closed["tools"] == opened["tools"]


@pytest.mark.parametrize(
    ("version", "field"),
    [("us.anthropic.claude-sonnet-4-5-20250929-v1:0", {"type": "none"}), ("asked-model", None)],
)
def test_bedrock_has_no_such_choice(version: str, field: Json | None) -> None:
    """Its Converse interface knows auto, any and one tool only, and asks for the tools as soon as
    the conversation has calls. Anthropic's models take their own field through it; others may call
    on, and such calls are refused."""
    with asked(BEDROCK, version) as (model, served):
        assert isinstance(model, BedrockModel)
        ask(model)
        ask(model, "auto")
    closed, opened = served.requests
    assert tools_of(closed) == tools_of(opened) == NAMES
    assert "toolChoice" not in closed["toolConfig"]
    assert closed.get("additionalModelRequestFields", {}).get("tool_choice") == field


def test_calls_as_text() -> None:
    """The rules keep the tools, so that the prefix is the same; calls in the reply are not read."""
    written = say(
        '<tool_call>\n{"name": "run_command", "arguments": {"command": "ls"}}\n</tool_call>'
    )
    inner = Playback([written, written])
    closed, opened = (ask(TextCalls(inner), choice) for choice in ("none", "auto"))
    assert (closed.message.calls, len(opened.message.calls)) == ((), 1)
    assert inner.asked[0].messages == inner.asked[1].messages
    assert "run_command" in inner.asked[0].messages[0].text

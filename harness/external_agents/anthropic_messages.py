"""Anthropic's Messages on an agent's side of the model proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from harness.external_agents import wire
from harness.model import Message, Reply, Role, ToolCall
from harness.models.providers.bodies import as_object


class AnthropicTool(wire.Tool):
    """A tool that the model may call; those of other types than ``custom`` run at the provider."""

    name: str
    type: str | None = None
    parameters: wire.Json | None = Field(default=None, alias="input_schema")


class AnthropicMessage(wire.FromAgent):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: wire.Content


class AnthropicBody(wire.Body):
    """The body of a request."""

    messages: list[AnthropicMessage]
    system: wire.Content = None
    tools: list[AnthropicTool] | None = None
    tool_choice: wire.Json | None = None


_STOPS = {"length": "max_tokens", "refusal": "refusal"}
_KINDS = {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


def _read(body: bytes) -> wire.AgentCall:
    given = wire.parse_body(AnthropicBody, body)
    system, _ = wire.read_content(given.system)
    messages = [Message(Role.SYSTEM, system)]
    for each in given.messages:
        messages += _messages(each)
    tools = [tool for tool in given.tools or [] if tool.type in (None, "custom")]
    return given.call(messages, tools, (given.tool_choice or {}).get("type") == "none")


def _messages(given: AnthropicMessage) -> Iterator[Message]:
    """Yield a message, and the tool results that it holds, first."""
    if isinstance(given.content, str) or given.content is None:
        yield Message(Role(given.role), given.content or "")
        return
    calls: list[ToolCall] = []
    shown: list[wire.ContentPart] = []
    for part in given.content:
        if part.type == "tool_result":
            text, images = wire.read_content(part.content)
            yield Message(Role.TOOL, text, images, call_id=part.tool_use_id)
        elif part.type == "tool_use":
            calls.append(ToolCall(part.id, part.name, json.dumps(part.input or {})))
        elif part.type not in ("thinking", "redacted_thinking"):
            shown.append(part)  # reasoning is sent back from our own record of the reply
    if shown or calls:
        text, images = wire.read_content(shown)
        yield Message(Role(given.role), text, images, calls=tuple(calls))


def _reply(reply: Reply, model: str, number: int) -> wire.Json:
    usage = reply.usage
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(reply),
        "stop_reason": _STOPS.get(reply.finish, "tool_use" if reply.message.calls else "end_turn"),
        "stop_sequence": None,
        # The protocol has no word for an unknown count.
        "usage": {
            "input_tokens": usage.input_tokens or 0,
            "output_tokens": usage.output_tokens or 0,
        },
    }


def _events(reply: Reply, model: str, number: int) -> Iterator[bytes]:
    whole = _reply(reply, model, number)
    start = {**whole, "content": [], "stop_reason": None}
    yield _event("message_start", message=start)
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    tokens = {"output_tokens": whole["usage"]["output_tokens"]}
    yield _event("message_delta", delta=end, usage=tokens)
    yield _event("message_stop")


def _event(name: str, **data: Any) -> bytes:
    return wire.sse({"type": name, **data}, name)


def _blocks(reply: Reply) -> list[wire.Json]:
    blocks: list[wire.Json] = []
    if reply.message.text or not reply.message.calls:
        blocks.append({"type": "text", "text": reply.message.text})
    for call in reply.message.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        blocks.append({**block, "input": as_object(call.arguments)})
    return blocks


def _error(refused: wire.RefusedCall) -> wire.Json:
    kind = _KINDS.get(refused.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refused.reason}}


ANTHROPIC_MESSAGES = wire.WireProtocol(_read, _reply, _events, _error)

"""Anthropic's Messages on an agent's side of the model proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from harness.external_agents.wire import (
    AgentCall,
    Content,
    ContentPart,
    FromAgent,
    Json,
    RefusedCall,
    WireProtocol,
    join_turns,
    parse_body,
    read_content,
    sse,
    tool_spec,
)
from harness.model import Message, Reply, Role, ToolCall
from harness.models.providers.bodies import as_object


class AnthropicTool(FromAgent):
    """A tool that the model may call; those of other types than ``custom`` run at the provider."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Json | None = None


class AnthropicMessage(FromAgent):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content


class AnthropicBody(FromAgent):
    """The body of a request."""

    model: str
    messages: list[AnthropicMessage]
    system: Content = None
    tools: list[AnthropicTool] | None = None
    tool_choice: Json | None = None
    stream: bool | None = None


_STOPS = {"length": "max_tokens", "refusal": "refusal"}
_KINDS = {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


def _read(body: bytes) -> AgentCall:
    given = parse_body(AnthropicBody, body)
    system, _ = read_content(given.system)
    messages = [Message(Role.SYSTEM, system)]
    for each in given.messages:
        messages += _messages(each)
    tools = [tool for tool in given.tools or [] if tool.type in (None, "custom")]
    return AgentCall(
        given.model,
        join_turns(messages),
        tuple(tool_spec(each.name, each.description, each.input_schema) for each in tools),
        "none" if (given.tool_choice or {}).get("type") == "none" else "auto",
        bool(given.stream),
    )


def _messages(given: AnthropicMessage) -> Iterator[Message]:
    """Yield a message, and the tool results that it holds, first."""
    if isinstance(given.content, str) or given.content is None:
        yield Message(Role(given.role), given.content or "")
        return
    calls: list[ToolCall] = []
    shown: list[ContentPart] = []
    for part in given.content:
        if part.type == "tool_result":
            text, images = read_content(part.content)
            yield Message(Role.TOOL, text, images, call_id=part.tool_use_id)
        elif part.type == "tool_use":
            calls.append(ToolCall(part.id, part.name, json.dumps(part.input or {})))
        elif part.type not in ("thinking", "redacted_thinking"):
            shown.append(part)  # reasoning is sent back from our own record of the reply
    if shown or calls:
        text, images = read_content(shown)
        yield Message(Role(given.role), text, images, calls=tuple(calls))


def _reply(reply: Reply, model: str, number: int) -> Json:
    usage = reply.usage
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(reply),
        "stop_reason": _stop(reply),
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
    return sse({"type": name, **data}, name)


def _blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = []
    if reply.message.text or not reply.message.calls:
        blocks.append({"type": "text", "text": reply.message.text})
    for call in reply.message.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        blocks.append({**block, "input": as_object(call.arguments)})
    return blocks


def _stop(reply: Reply) -> str:
    return _STOPS.get(reply.finish, "tool_use" if reply.message.calls else "end_turn")


def _error(refused: RefusedCall) -> Json:
    kind = _KINDS.get(refused.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refused.reason}}


ANTHROPIC_MESSAGES = WireProtocol(_read, _reply, _events, _error)

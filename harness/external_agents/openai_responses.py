"""OpenAI's Responses on an agent's side of the model proxy, without stored responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.external_agents import wire
from harness.external_agents.chat_completions import openai_usage, write_openai_error
from harness.model import Message, Reply, Role, ToolCall


class ResponsesItem(wire.FromAgent):
    """An item of the conversation: a message, a call or its output."""

    type: str = "message"
    role: str = ""
    content: wire.Content = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: wire.Content = None


class ResponsesTool(wire.Tool):
    """A tool that the model may call; other types than ``function`` run at the provider."""

    type: str


class ResponsesBody(wire.Body):
    """The body of a request."""

    input: str | list[ResponsesItem]
    instructions: str | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: str | wire.Json | None = None
    previous_response_id: str | None = None


_ROLES = {"developer": Role.SYSTEM} | {str(role): role for role in Role if role is not Role.TOOL}


def _read(body: bytes) -> wire.AgentCall:
    given = wire.parse_body(ResponsesBody, body)
    if given.previous_response_id is not None:
        raise wire.RefusedCall(400, "previous_response_id: send the whole conversation as `input`")
    messages = [Message(Role.SYSTEM, given.instructions or "")]
    if isinstance(given.input, str):
        messages.append(Message(Role.USER, given.input))
    else:
        messages += [_message(item) for item in given.input if item.type != "reasoning"]
    tools = [tool for tool in given.tools or [] if tool.type == "function"]
    return given.call(messages, tools, given.tool_choice == "none")


def _message(item: ResponsesItem) -> Message:
    if item.type == "function_call":
        call = ToolCall(item.call_id, item.name, item.arguments)
        return Message(Role.ASSISTANT, "", calls=(call,))
    if item.type == "function_call_output":
        text, images = wire.read_content(item.output)
        return Message(Role.TOOL, text, images, call_id=item.call_id)
    if item.type != "message" or item.role not in _ROLES:
        kind = item.role if item.type == "message" else item.type
        raise wire.RefusedCall(400, f"input: an item of type {kind[:40]!r} is not served")
    text, images = wire.read_content(item.content)
    return Message(_ROLES[item.role], text, images)


def _reply(reply: Reply, model: str, number: int) -> wire.Json:
    status = "incomplete" if reply.finish == "length" else "completed"
    reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        **_head(model, number),
        "status": status,
        "incomplete_details": reason,
        "output": _items(reply, number),
        "usage": openai_usage(reply.usage, "input", "output"),
    }


def _events(reply: Reply, model: str, number: int) -> Iterator[bytes]:
    begun = {**_head(model, number), "status": "in_progress", "output": []}
    parts: list[tuple[str, wire.Json]] = [("created", {"response": begun})]
    for index, item in enumerate(_items(reply, number)):
        place = {"output_index": index}
        empty: wire.Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
        unfinished = {**item, **empty, "status": "in_progress"}
        parts.append(("output_item.added", {**place, "item": unfinished}))
        parts += _deltas(item, {**place, "item_id": item["id"]})
        parts.append(("output_item.done", {**place, "item": item}))
    whole = _reply(reply, model, number)
    parts.append((str(whole["status"]), {"response": whole}))
    for order, (name, data) in enumerate(parts):
        kind = f"response.{name}"
        yield wire.sse({"type": kind, "sequence_number": order, **data}, kind)


def _deltas(item: wire.Json, place: wire.Json) -> list[tuple[str, wire.Json]]:
    """The parts in which an item is streamed: the whole of it at once."""
    if item["type"] == "function_call":
        name, text = "function_call_arguments", item["arguments"]
        return [
            (f"{name}.delta", {**place, "delta": text}),
            (f"{name}.done", {**place, "arguments": text}),
        ]
    part = item["content"][0]
    place = {**place, "content_index": 0}
    return [
        ("content_part.added", {**place, "part": {**part, "text": ""}}),
        ("output_text.delta", {**place, "delta": part["text"]}),
        ("output_text.done", {**place, "text": part["text"]}),
        ("content_part.done", {**place, "part": part}),
    ]


def _head(model: str, number: int) -> wire.Json:
    head: dict[str, Any] = {"id": f"resp_{number}", "object": "response", "created_at": 0}
    return {**head, "model": model, "error": None}


def _items(reply: Reply, number: int) -> list[wire.Json]:
    items: list[wire.Json] = []
    if reply.message.text or not reply.message.calls:
        text = {"type": "output_text", "text": reply.message.text, "annotations": []}
        head = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        items.append({**head, "status": "completed", "content": [text]})
    for index, call in enumerate(reply.message.calls):
        head = {"id": f"fc_{number}_{index}", "type": "function_call", "status": "completed"}
        given = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        items.append({**head, **given})
    return items


OPENAI_RESPONSES = wire.WireProtocol(_read, _reply, _events, write_openai_error)

"""OpenAI's Chat Completions on an agent's side of the model proxy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from harness.external_agents import wire
from harness.model import Message, Reply, Role, ToolCall, Usage


class ChatFunction(wire.Tool):
    """A call's function and its arguments, or a tool's function and its parameters."""

    name: str
    arguments: str = ""


class ChatCall(wire.FromAgent):
    """A tool call of an earlier reply."""

    id: str
    function: ChatFunction


class ChatMessage(wire.FromAgent):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: wire.Content = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str = ""


class ChatTool(wire.FromAgent):
    """A tool that the model may call."""

    type: str
    function: ChatFunction | None = None


class ChatBody(wire.Body):
    """The body of a request."""

    messages: list[ChatMessage]
    tools: list[ChatTool] | None = None
    tool_choice: str | wire.Json | None = None
    n: int | None = None


_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "tool": Role.TOOL}
_FINISHES = {"tool_call": "tool_calls", "length": "length", "refusal": "content_filter"}


def _read(body: bytes) -> wire.AgentCall:
    given = wire.parse_body(ChatBody, body)
    if given.n not in (None, 1):
        raise wire.RefusedCall(400, "n: one reply is served at a time")
    functions = [tool.function for tool in given.tools or [] if tool.function is not None]
    return given.call(map(_message, given.messages), functions, given.tool_choice == "none")


def _message(given: ChatMessage) -> Message:
    text, images = wire.read_content(given.content)
    if given.role == "assistant":
        calls = (
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in given.tool_calls or ()
        )
        return Message(Role.ASSISTANT, text, calls=tuple(calls))
    return Message(_ROLES[given.role], text, images, call_id=given.tool_call_id)


def _reply(reply: Reply, model: str, number: int) -> wire.Json:
    message: wire.Json = {"role": "assistant", "content": reply.message.text or None}
    if reply.message.calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model}
    return {**head, "choices": [choice], "usage": openai_usage(reply.usage, "prompt", "completion")}


def _events(reply: Reply, model: str, number: int) -> Iterator[bytes]:
    head = {"id": f"chatcmpl-{number}", "created": 0, "model": model}
    head["object"] = "chat.completion.chunk"
    delta: wire.Json = {"role": "assistant", "content": reply.message.text or None}
    if reply.message.calls:
        calls = enumerate(_calls(reply))
        delta["tool_calls"] = [{"index": index, **call} for index, call in calls]
    yield wire.sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    end = {"index": 0, "delta": {}, "finish_reason": _finish(reply)}
    yield wire.sse({**head, "choices": [end]})
    usage = openai_usage(reply.usage, "prompt", "completion")
    yield wire.sse({**head, "choices": [], "usage": usage})
    yield wire.sse("[DONE]")


def _calls(reply: Reply) -> list[wire.Json]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in reply.message.calls
    ]


def _finish(reply: Reply) -> str:
    return _FINISHES.get(reply.finish, "tool_calls" if reply.message.calls else "stop")


def openai_usage(usage: Usage, read: str, written: str) -> wire.Json | None:
    """Return a reply's tokens by a protocol's names of those that were read and written; None if
    they are unknown."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        f"{read}_tokens": usage.input_tokens,
        f"{written}_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        f"{read}_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
    }


def write_openai_error(refused: wire.RefusedCall) -> wire.Json:
    """Return the body of a refusal, the same in both protocols of OpenAI's."""
    error = {"message": refused.reason, "type": "invalid_request_error", "code": refused.code}
    return {"error": {**error, "param": None}}


CHAT_COMPLETIONS = wire.WireProtocol(_read, _reply, _events, write_openai_error)

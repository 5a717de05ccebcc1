"""Conversion of messages to pydantic-ai's, and of its replies back.

A provider that signs its model's reasoning wants those parts back unchanged. Then a message keeps
all of its parts in ``native`` and is sent back from them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import messages as pm
from pydantic_ai.tools import ToolDefinition

from harness.model import Message, Reply, Role, ToolCall, ToolSpec, clean_text
from harness.models.providers.bodies import Reading, sendable, sendable_name
from harness.models.providers.verdict import REFUSAL

_PARTS: TypeAdapter[list[pm.ModelResponsePart]] = TypeAdapter(list[pm.ModelResponsePart])
_BLANK = "[empty message]"  # what a model is shown of a message of its own without any text
# Finishes of a reply without an answer: it is all in the reasoning, or in a thought without an end.
REASONING_ONLY, OPEN_THOUGHT = "reasoning_only", "open_thought"


@dataclass(frozen=True, slots=True)
class Replay:
    """Form in which a model's reasoning is sent back to its provider: the parts that it sent
    (``native``), or text in a ``field`` of the message; not at all if neither is set."""

    system: str  # the provider's name in pydantic-ai
    native: bool = False
    field: str = ""


def to_provider_messages(messages: Sequence[Message], replay: Replay) -> Iterator[pm.ModelMessage]:
    """Convert messages to pydantic-ai's: a request for a run of inputs, a response for a reply."""
    calls = (call for message in messages for call in message.calls)
    names = {call.id: sendable_name(call.name) for call in calls}
    for is_reply, run in groupby(messages, key=lambda message: message.role is Role.ASSISTANT):
        if is_reply:
            for message in run:
                parts = _response_parts(message, replay)
                yield pm.ModelResponse(parts=parts, provider_name=replay.system)
        else:
            incoming = list(run)
            request = [_request_part(message, names) for message in incoming]
            # Not every protocol allows images in tool results: they follow as a user message.
            shown = [part for message in incoming for part in _image_parts(message, names)]
            yield pm.ModelRequest(parts=[*request, *shown])


def tool_definition(spec: ToolSpec) -> ToolDefinition:
    """Convert a tool's specification to pydantic-ai's ToolDefinition."""
    return ToolDefinition(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=dict(spec.parameters),
        strict=False,
    )


def reply_from_response(
    response: pm.ModelResponse, reading: Reading, version: str, replay: Replay
) -> Reply:
    """Convert a response to a reply; ``version`` is used if it does not name its own. One that a
    content filter cut off is a refusal, with the text before it."""
    refusal = (response.provider_details or {}).get("refusal")
    texts = [part.content for part in response.parts if isinstance(part, pm.TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, pm.ThinkingPart)]
    calls = [part for part in response.parts if isinstance(part, pm.ToolCallPart)]
    message = Message(
        Role.ASSISTANT,
        clean_text(refusal if isinstance(refusal, str) else "\n\n".join(texts)),
        calls=tuple(_call(part) for part in calls),
        reasoning=clean_text("\n\n".join(thought for thought in thoughts if thought)),
        native=_native(response.parts) if replay.native else "",
    )
    if (finish := REFUSAL if refusal else reading.finish) == "stop":
        finish = _ending(message, reading.body)
    served = clean_text(response.model_name or version)
    response_id = clean_text(response.provider_response_id or "")
    return Reply(message, reading.usage, served, finish, response_id=response_id)


def _ending(message: Message, body: bytes) -> str:
    """How a message ended that its model ended by itself."""
    if message.calls:
        return "tool_call"
    if body.count(b"<think>") > body.count(b"</think>"):
        return OPEN_THOUGHT
    return REASONING_ONLY if message.reasoning and not message.text.strip() else "stop"


def _request_part(message: Message, names: dict[str, str]) -> pm.ModelRequestPart:
    if message.role is Role.SYSTEM:
        return pm.SystemPromptPart(message.text)
    if message.role is Role.TOOL:
        return pm.ToolReturnPart(names[message.call_id], message.text, message.call_id)
    images = _images(message)
    return pm.UserPromptPart([message.text, *images] if images else message.text)


def _image_parts(message: Message, names: dict[str, str]) -> Iterator[pm.ModelRequestPart]:
    if message.role is Role.TOOL and message.images:
        title = f"[what {names[message.call_id]} ({message.call_id}) showed]"
        yield pm.UserPromptPart([title, *_images(message)])


def _images(message: Message) -> list[pm.BinaryContent]:
    return [pm.BinaryContent(image.data, media_type=image.media_type) for image in message.images]


def _response_parts(message: Message, replay: Replay) -> list[pm.ModelResponsePart]:
    if message.native and replay.native:
        native = _PARTS.validate_python(json.loads(message.native))
        for part in native:
            if isinstance(part, pm.ToolCallPart):
                part.tool_name = sendable_name(part.tool_name)
        return native
    parts: list[pm.ModelResponsePart] = []
    if message.reasoning and replay.field:
        thought = pm.ThinkingPart(message.reasoning, id=replay.field, provider_name=replay.system)
        parts.append(thought)
    if message.text.strip() or not message.calls:  # several providers refuse a blank text
        parts.append(pm.TextPart(message.text if message.text.strip() else _BLANK))
    parts += [
        pm.ToolCallPart(sendable_name(call.name), sendable(call.arguments), call.id)
        for call in message.calls
    ]
    return parts


def _native(parts: Sequence[pm.ModelResponsePart]) -> str:
    """The parts as JSON, where text and calls alone would not bring them back."""
    if not any(_carries(part) for part in parts):
        return ""
    return json.dumps(_clean(_PARTS.dump_python(list(parts))))


def cut_native(native: str, calls: Sequence[ToolCall], cut_text: Callable[[str], str]) -> str:
    """Return a message's native parts with these first calls only, and its texts cut. Signed
    thoughts stay as they are."""
    kept: list[dict[str, Any]] = []
    left = iter(calls)
    for part in json.loads(native):
        if part["part_kind"] == "tool-call":
            if (call := next(left, None)) is not None:
                kept.append({**part, "args": call.arguments})
        else:
            text = part["part_kind"] == "text"
            kept.append({**part, "content": cut_text(part["content"])} if text else part)
    return json.dumps(kept)


def _carries(part: pm.ModelResponsePart) -> bool:
    return isinstance(part, pm.ThinkingPart) or bool(getattr(part, "provider_details", None))


def _call(part: pm.ToolCallPart) -> ToolCall:
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    return ToolCall(
        clean_text(part.tool_call_id), clean_text(part.tool_name), clean_text(arguments)
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list) else value

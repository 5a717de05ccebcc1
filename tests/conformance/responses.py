"""OpenAI Responses, also at Azure's addresses, without stored state.

Rules: OpenAI, "API reference: Create a model response", "Reasoning models: encrypted reasoning
items", 2026. The words of refusals are the service's.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.cases import cases
from tests.conformance.chat import Chat, data_url, read_arguments, read_tools
from tests.conformance.conversation import (
    Asked,
    Call,
    Json,
    Part,
    Picture,
    Refused,
    Result,
    Text,
    Thought,
    Turn,
    fields,
    shape,
    tag,
)
from tests.conformance.rules import MB, ImageLimits, block, check_images, sign
from tests.conformance.transport import Answer, Incoming
from tests.conformance.wire_format import Memory, Reply, WireFormat, arguments

_LIMITS = ImageLimits(count=500, bytes=20 * MB)
_ENCRYPTED = "reasoning.encrypted_content"
_OPTIONAL = shape(cases(__file__, "optional"))
_ITEMS = {kind: tuple(map(shape, two)) for kind, two in cases(__file__, "items").items()}


class Responses(WireFormat):
    """OpenAI Responses."""

    name = "responses"
    paths = re.compile(r"(/v1|/openai/v1|/openai)/responses(\?api-version=.+)?")
    key_headers = Chat.key_headers
    errors = Chat.errors

    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        fields(body, "request", {"model": str, "input": (str, list)}, _OPTIONAL)
        tools = read_tools(body, lambda tool: fields(
            tool, "tools", {"type": str, "name": str, "parameters": dict},
            {"description": str, "strict": (bool, type(None))},
        ))  # fmt: skip
        items = body["input"]
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        stored = bool(body.get("store", True))
        system = [body["instructions"]] if "instructions" in body else []
        blocks = [block("tools", each) for each in body.get("tools", ())]
        blocks += [block("system", each) for each in system]
        turns = []
        for index, item in enumerate(items):
            turn, made = _item(item, f"input[{index}]", stored)
            if turn is None:
                system.append(str(item["content"]))
            else:
                turns.append(turn)
            blocks.append(made)
        _check_calls(turns)
        _check_reasoning(items, memory)
        check_images([p for t in turns for p in t.parts if isinstance(p, Picture)], _LIMITS)
        return Asked(
            body["model"], "\n".join(system), tuple(turns), tuple(blocks), tools,
            may_call=body.get("tool_choice", "auto") != "none",
            thinks=_ENCRYPTED in body.get("include", ()),
            partition=f"{body['model']} {body.get('prompt_cache_key', '')}",
        )  # fmt: skip

    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        said, tokens = reply.said, reply.tokens
        output: list[Json] = []
        if said.thought:
            name = f"rs_{reply.id}"
            summary = [{"type": "summary_text", "text": said.thought}]
            item = {"id": name, "type": "reasoning", "summary": summary}
            if asked.thinks:
                item["encrypted_content"] = _encrypt(name, said.thought)
                memory.thoughts.update({call.id: name for call in said.calls})
            output.append(item)
        if said.text:
            kind = "refusal" if said.finish == "refusal" else "output_text"
            content: Json = {"type": kind, "refusal" if kind == "refusal" else "text": said.text}
            content |= {} if kind == "refusal" else {"annotations": [], "logprobs": []}
            output.append({
                "id": f"msg_{reply.id}", "type": "message", "role": "assistant",
                "status": "completed", "content": [content],
            })  # fmt: skip
        output += [
            {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id,
             "name": call.name, "arguments": arguments(call), "status": "completed"}
            for call in said.calls
        ]  # fmt: skip
        cut = said.finish == "length"
        return {
            "id": f"resp_{reply.id}", "object": "response", "created_at": 1_790_000_000,
            "status": "incomplete" if cut else "completed", "model": reply.model,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None, "instructions": None, "metadata": {}, "output": output,
            "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": tokens.input,
                "input_tokens_details": {"cached_tokens": tokens.cached},
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
                "total_tokens": tokens.input + tokens.output,
            },
        }  # fmt: skip

    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        return Chat().error(status, kind, message, wait)

    def empty(self, body: Json) -> Json:
        return {**body, "output": []}

    def filtered(self, body: Json) -> Json:
        reason = {"reason": "content_filter"}
        return {**body, "status": "incomplete", "incomplete_details": reason}

    def overflow(self, tokens: int, context: int) -> str:
        return (
            "Your input exceeds the context window of this model. Please adjust your input and "
            "try again."
        )


def _encrypt(name: str, thought: str) -> str:
    sealed = base64.b64encode(thought[::-1].encode()).decode()
    return f"{sealed}.{sign('responses', name, sealed)}"


def _item(item: object, where: str, stored: bool) -> tuple[Turn | None, Any]:
    kind = item.get("type", "message") if isinstance(item, dict) else ""
    if kind == "message":
        return _message(item, where)
    if kind not in _ITEMS:
        raise Refused(f"Invalid value: '{kind}' at {where}.type")
    made = fields(item, where, *_ITEMS[kind])
    if kind == "function_call":
        call = Call(made["name"], read_arguments(made["arguments"]), made["call_id"])
        return Turn(True, (call,)), block("messages", made)
    if kind == "function_call_output":
        result = Result(made["call_id"], made["output"])
        return Turn(False, (result,)), block("messages", made)
    _check_sealed(made, stored)
    return Turn(True, (Thought(str(made["encrypted_content"])),)), block("messages", made)


def _check_sealed(item: Json, stored: bool) -> None:
    sealed, _, signature = (item.get("encrypted_content") or "").partition(".")
    if not sealed:
        raise Refused(
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set "
            "to false. Try again with `store` set to true, or remove this item from your input."
        )
    if signature != sign("responses", item["id"], sealed):
        raise Refused(f"The encrypted content for item {item['id']} could not be verified.")


def _message(item: object, where: str) -> tuple[Turn | None, Any]:
    required: dict[str, Any] = {"role": str, "content": (str, list)}
    made = fields(item, where, required, {"type": str, "id": str, "status": str, "phase": str})
    role, content = made["role"], made["content"]
    if role in ("system", "developer"):
        return None, block("system", made)
    if role not in ("user", "assistant"):
        raise Refused(f"Invalid value: '{role}' at {where}.role")
    parts: list[Part] = [Text(content)] if isinstance(content, str) else []
    shown: list[Json] = []
    for index, part in enumerate(content if isinstance(content, list) else ()):
        parts.append(_part(part, f"{where}.content[{index}]", role))
        shown.append({key: each for key, each in part.items() if key != "image_url"})
    pictures = [part for part in parts if isinstance(part, Picture)]
    value = {**made, "content": shown or content}
    return Turn(role == "assistant", tuple(parts)), block("messages", value, *pictures)


def _part(part: object, where: str, role: str) -> Part:
    kind = tag(part, where)
    allowed = ("input_text", "input_image") if role == "user" else ("output_text", "refusal")
    if kind not in allowed:
        raise Refused(f"Invalid value: '{kind}' at {where}. Supported values are: {allowed}.")
    if kind == "input_image":
        made = fields(part, where, {"type": str, "image_url": str}, {"detail": str})
        return data_url(made["image_url"], where)
    name = "refusal" if kind == "refusal" else "text"
    optional = {"annotations": list, "logprobs": list}
    return Text(fields(part, where, {"type": str, name: str}, optional)[name])


def _check_calls(turns: list[Turn]) -> None:
    calls = [part.id for turn in turns for part in turn.parts if isinstance(part, Call)]
    results = [part.call for turn in turns for part in turn.parts if isinstance(part, Result)]
    for call in calls:
        if results.count(call) != 1:
            raise Refused(f"No tool output found for function call {call}.")
    for result in results:
        if result not in calls:
            raise Refused(f"No tool call found for function call output with call_id {result}.")


def _check_reasoning(items: list[Json], memory: Memory) -> None:
    """Reasoning comes back before the calls that it led to, and never alone."""
    before: str | None = None
    for item in [*items, {"type": "message", "role": "user"}]:
        kind = item.get("type", "message")
        if kind == "function_call":
            needed = memory.thoughts.get(item["call_id"])
            if needed is not None and needed != before:
                raise Refused(
                    f"Item '{item.get('id', item['call_id'])}' of type 'function_call' was "
                    f"provided without its required 'reasoning' item: '{needed}'."
                )
        elif kind == "reasoning":
            before = item["id"]
        elif kind == "function_call_output" or item.get("role") == "user":
            before = None
    for first, second in zip(items, [*items[1:], {}], strict=True):
        follows = second.get("type", "message") == "function_call" or (
            second.get("role") == "assistant"
        )
        if first.get("type") == "reasoning" and not follows:
            raise Refused(
                f"Item '{first['id']}' of type 'reasoning' was provided without its required "
                "following item."
            )

"""OpenAI Chat Completions, also at Azure's addresses.

Rules: OpenAI, "API reference: Create chat completion", "Images and vision", "Prompt caching", 2026;
Microsoft, "Azure OpenAI quotas and limits", 2026. The words of refusals are the service's.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.cases import cases
from tests.conformance.conversation import (
    Asked,
    Block,
    Call,
    Json,
    Part,
    Picture,
    Refused,
    Result,
    Text,
    Turn,
    fields,
    shape,
    tag,
)
from tests.conformance.rules import MB, ImageLimits, block, check_images, read_image
from tests.conformance.transport import Answer, Incoming
from tests.conformance.wire_format import Memory, Reply, WireFormat, arguments, seconds

_LIMITS = ImageLimits(count=500, bytes=20 * MB)
_AZURE_LIMITS = ImageLimits(count=50, bytes=20 * MB)
_OPTIONAL = shape(cases(__file__, "optional"))
FINISH = {"stop": "stop", "length": "length", "refusal": "stop"}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Chat(WireFormat):
    """OpenAI Chat Completions."""

    name = "chat"
    paths = re.compile(
        r"(/v1|/openai/v1|/openai/deployments/(?P<model>[^/]+))/chat/completions(\?api-version=.+)?"
    )
    key_headers = ("authorization", "api-key")
    errors = cases(__file__, "errors")

    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        fields(body, "request", {"messages": list}, _OPTIONAL)
        azure = incoming.path.startswith("/openai/")
        model = body.get("model") or str(self.paths.fullmatch(incoming.path)["model"])  # type: ignore[index]  # it matched
        tools = read_tools(body, lambda tool: fields(
            fields(tool, "tools", {"type": str, "function": dict})["function"],
            "tools.function", {"name": str, "parameters": dict},
            {"description": str, "strict": bool},
        ))  # fmt: skip
        turns, blocks = [], [block("tools", each) for each in body.get("tools", ())]
        system = []
        for index, message in enumerate(body["messages"]):
            turn, made = _message(message, f"messages[{index}]")
            if turn is None:
                system.append(str(message["content"]))
            else:
                turns.append(turn)
            blocks.append(made)
        _check_results(turns)
        pictures = [p for turn in turns for p in turn.parts if isinstance(p, Picture)]
        check_images(pictures, _AZURE_LIMITS if azure else _LIMITS)
        return Asked(
            model, "\n".join(system), tuple(turns), tuple(blocks), tools,
            may_call=body.get("tool_choice", "auto") != "none",
            partition=f"{model} {body.get('prompt_cache_key', '')}",
        )  # fmt: skip

    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        said, tokens = reply.said, reply.tokens
        message: Json = {"role": "assistant", "content": said.text or None, "refusal": None}
        if said.finish == "refusal":
            message |= {"content": None, "refusal": said.text}
        if said.thought:  # as servers with open weights do
            message["reasoning_content"] = said.thought
        if said.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function",
                 "function": {"name": call.name, "arguments": arguments(call)}}
                for call in said.calls
            ]  # fmt: skip
        finish = "tool_calls" if said.calls and said.finish == "stop" else FINISH[said.finish]
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": reply.model,
            "system_fingerprint": "fp_1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": tokens.input,
                "completion_tokens": tokens.output,
                "total_tokens": tokens.input + tokens.output,
                "prompt_tokens_details": {"cached_tokens": tokens.cached},
                "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
            },
        }

    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        body = {"message": message, "type": "invalid_request_error", "param": None, "code": kind}
        return Answer({"error": body}, status, seconds(wait))

    def empty(self, body: Json) -> Json:
        return {**body, "choices": []}

    def filtered(self, body: Json) -> Json:
        (choice,) = body["choices"]
        stopped = {**choice, "finish_reason": "content_filter"}
        return {**body, "choices": [stopped]}

    def overflow(self, tokens: int, context: int) -> str:
        return (
            f"This model's maximum context length is {context} tokens. However, your messages "
            f"resulted in {tokens} tokens. Please reduce the length of the messages."
        )


def read_tools(body: Json, check: Any) -> tuple[str, ...]:
    """Check the tools and the tool choice of either protocol; return the names. Raises Refused."""
    names = tuple(check(tool)["name"] for tool in body.get("tools", ()))
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise Refused(f"Invalid 'tools[0].function.name': {name!r}")
    if "tool_choice" in body and not names:
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        raise Refused(f"Invalid value: {choice!r}. Supported values are: 'none', 'auto', ...")
    return names


def _message(message: object, where: str) -> tuple[Turn | None, Block]:
    role = tag(message, where, "role")
    if role in ("system", "developer"):
        fields(message, where, {"role": str, "content": (str, list)})
        return None, block("messages", message)
    if role == "user":
        return _user(message, where)
    if role == "assistant":
        return _assistant(message, where), block("messages", message)
    if role == "tool":
        made = fields(message, where, {"role": str, "content": str, "tool_call_id": str})
        result = Result(made["tool_call_id"], made["content"])
        return Turn(False, (result,)), block("messages", message)
    raise Refused(f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', ...")


def _user(message: object, where: str) -> tuple[Turn, Block]:
    made = fields(message, where, {"role": str, "content": (str, list)}, {"name": str})
    content = made["content"]
    parts: list[Part] = [Text(content)] if isinstance(content, str) else []
    shown: list[Json] = []
    for index, part in enumerate(content if isinstance(content, list) else ()):
        place = f"{where}.content[{index}]"
        if tag(part, place) == "text":
            parts.append(Text(fields(part, place, {"type": str, "text": str})["text"]))
            shown.append(part)
            continue
        found = fields(part, place, {"type": str, "image_url": dict})["image_url"]
        url = fields(found, f"{place}.image_url", {"url": str}, {"detail": str})["url"]
        parts.append(data_url(url, place))
        shown.append({"type": "image_url"})
    pictures = [part for part in parts if isinstance(part, Picture)]
    return Turn(False, tuple(parts)), block("messages", shown or made, *pictures)


def data_url(url: str, where: str) -> Picture:
    """The image of a data URL. Raises Refused for any other one."""
    found = re.fullmatch(r"data:(image/[a-z]+);base64,(.*)", url, re.DOTALL)
    if found is None:
        raise Refused(f"{where}: Expected a base64-encoded data URL with an image MIME type")
    return read_image(found[2], found[1], where)


def _assistant(message: object, where: str) -> Turn:
    optional: dict[str, Any] = {
        "content": (str, list, type(None)), "tool_calls": list, "refusal": (str, type(None)),
        "name": str, "reasoning_content": str, "audio": type(None),
    }  # fmt: skip
    made = fields(message, where, {"role": str}, optional)
    if made.get("content") is None and not made.get("tool_calls") and not made.get("refusal"):
        raise Refused(f"{where}: content is required unless tool_calls is specified")
    parts: list[Part] = [Text(made["content"])] if isinstance(made.get("content"), str) else []
    for index, call in enumerate(made.get("tool_calls", ())):
        place = f"{where}.tool_calls[{index}]"
        fields(call, place, {"id": str, "type": str, "function": dict})
        function = fields(call["function"], place, {"name": str, "arguments": str})
        if len(call["id"]) > 40:
            raise Refused(f"Invalid '{place}.id': string too long. Expected at most 40 characters")
        parts.append(Call(function["name"], read_arguments(function["arguments"]), call["id"]))
    return Turn(True, tuple(parts))


def read_arguments(text: str) -> Json:
    """A call's arguments; none if the text, which the model wrote, is no JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _check_results(turns: list[Turn]) -> None:
    """Each call is answered right after the message that has it, before anything else."""
    unanswered: list[str] = []
    for turn in [*turns, Turn(False, ())]:
        results = [part.call for part in turn.parts if isinstance(part, Result)]
        for call in results:
            if call not in unanswered:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    f"preceding message with 'tool_calls': {call}"
                )
            unanswered.remove(call)
        if unanswered and not results:
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(unanswered)}"
            )
        if not results:
            unanswered = [part.id for part in turn.parts if isinstance(part, Call)]

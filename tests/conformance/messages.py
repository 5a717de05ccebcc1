"""Anthropic Messages, also at Vertex AI's addresses.

Rules: Anthropic, "Messages", "Tool use", "Extended thinking", "Prompt caching", "Images and
vision", "Errors", 2026; Google, "Claude on Vertex AI", 2026. The words of refusals are the
service's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.cases import cases
from tests.conformance.cache import MarkedCache
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
    Thought,
    Turn,
    fields,
    shape,
    tag,
)
from tests.conformance.rules import MB, ImageLimits, block, check_images, read_image, sign
from tests.conformance.transport import Answer, Incoming
from tests.conformance.wire_format import Memory, Reply, WireFormat, seconds

LIMITS = ImageLimits(count=100, bytes=5 * MB, side=8000, crowded=20, crowded_side=2000)
_OPTIONAL = shape(cases(__file__, "optional"))
_CACHE = {"cache_control": dict}
_BLOCKS = {kind: tuple(map(shape, two)) for kind, two in cases(__file__, "blocks").items()}
_MINIMUM = (  # tokens; Anthropic, "Prompt caching: cache limitations", 2026
    (re.compile("opus-4-[56]|haiku-4-5"), 4096),
    (re.compile("opus-4-7|haiku-3|sonnet-4-6"), 2048),
)
STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
HIDDEN = sign("messages", "redacted")


class Messages(WireFormat):
    """Anthropic Messages."""

    name = "messages"
    paths = re.compile(
        r"/v1/messages(\?beta=true)?|/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/"
        r"models/(?P<model>[^/:]+):(rawPredict|streamRawPredict)"
    )
    cache = MarkedCache
    body_limit = 32 * MB
    key_headers = ("x-api-key", "authorization")
    errors = cases(__file__, "errors")

    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        vertex = self.paths.fullmatch(incoming.path)["model"]  # type: ignore[index]  # it matched
        fields(body, "request", {"messages": list, "max_tokens": int}, _OPTIONAL)
        if bool(vertex) is ("model" in body) or bool(vertex) is not ("anthropic_version" in body):
            raise Refused("model: Field required" if not vertex else "anthropic_version: required")
        turns, blocks = self._turns(body)
        _check_pairs(turns)
        thinking = _thinks(body)
        _check_thoughts(body["messages"], thinking, memory)
        pictures = [p for turn in turns for p in turn.parts if isinstance(p, Picture)]
        check_images(pictures, LIMITS)
        tools = tuple(_tool(tool, index) for index, tool in enumerate(body.get("tools", ())))
        tooled = any(isinstance(p, (Call, Result)) for turn in turns for p in turn.parts)
        if tooled and not tools:
            raise Refused(
                "Requests which include `tool_use` or `tool_result` blocks must define tools"
            )
        choice = body.get("tool_choice", {"type": "auto"})
        if "tool_choice" in body and not tools:
            raise Refused("tool_choice: may only be specified while providing tools")
        if thinking and choice.get("type") in ("any", "tool"):
            raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
        model = str(vertex or body["model"])
        system = body.get("system", "")
        return Asked(
            model, system if isinstance(system, str) else "".join(each["text"] for each in system),
            turns, blocks, tools, choice.get("type") != "none", thinking,
            bool(body.get("stream")), model,
            volatile=json.dumps([choice, body.get("thinking"), bool(pictures)], sort_keys=True),
        )  # fmt: skip

    def _turns(self, body: Json) -> tuple[tuple[Turn, ...], tuple[Block, ...]]:
        blocks = [
            block("tools", _plain(tool), point="cache_control" in tool)
            for tool in body.get("tools", ())
        ]
        system = body.get("system", [])
        for each in [{"type": "text", "text": system}] if isinstance(system, str) else system:
            fields(each, "system", *_BLOCKS["text"])
            blocks.append(block("system", _plain(each), point="cache_control" in each))
        turns = []
        for index, message in enumerate(body["messages"]):
            turn, made = _message(message, f"messages.{index}")
            turns.append(turn)
            blocks += made
        if not turns or turns[0].by_model:
            raise Refused('messages: first message must use the "user" role')
        if "cache_control" in body:  # moves on by itself
            blocks[-1] = Block(blocks[-1].section, blocks[-1].data, True)
        points = sum(each.point for each in blocks)
        if points > 4:
            raise Refused(
                f"A maximum of 4 blocks with cache_control may be provided. Found {points}."
            )
        return tuple(turns), tuple(blocks)

    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        said, tokens = reply.said, reply.tokens
        content: list[Json] = []
        if said.thought and asked.thinks:
            signature = sign("messages", said.thought)
            content.append({"type": "thinking", "thinking": said.thought, "signature": signature})
            content.append({"type": "redacted_thinking", "data": HIDDEN})
            memory.thoughts.update({call.id: signature for call in said.calls})
        if said.text:
            content.append({"type": "text", "text": said.text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in said.calls
        ]
        stop = "tool_use" if said.calls and said.finish == "stop" else STOPS[said.finish]
        return {
            "id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": reply.model,
            "content": content, "stop_reason": stop, "stop_sequence": None,
            "usage": {
                "input_tokens": tokens.input - tokens.cached - tokens.written,
                "cache_creation_input_tokens": tokens.written,
                "cache_read_input_tokens": tokens.cached,
                "output_tokens": tokens.output,
            },
        }  # fmt: skip

    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        error = {"type": kind, "message": message}
        body = {"type": "error", "error": error, "request_id": "req_1"}
        return Answer(body, status, seconds(wait))

    def empty(self, body: Json) -> Json:
        return {**body, "content": []}

    def filtered(self, body: Json) -> Json:
        return {**body, "content": [], "stop_reason": "refusal"}

    def overflow(self, tokens: int, context: int) -> str:
        return f"prompt is too long: {tokens} tokens > {context} maximum"

    def minimum(self, model: str) -> int:
        return next((size for names, size in _MINIMUM if names.search(model)), 1024)

    def pack(self, asked: Asked, body: Json) -> Answer:
        if not asked.streams:
            return Answer(body)
        text = "".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(body)
        )
        return Answer(text.encode(), media="text/event-stream")


def _events(body: Json) -> Iterator[Json]:
    """The events that make up a message."""
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    for index, each in enumerate(body["content"]):
        start = {**each, **{key: value for key, value in empty.items() if key in each}}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _deltas(each):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": stop, "usage": usage}
    yield {"type": "message_stop"}


def _deltas(each: Json) -> list[Json]:
    if each["type"] == "text":
        return [{"type": "text_delta", "text": each["text"]}]
    if each["type"] == "thinking":
        return [
            {"type": "thinking_delta", "thinking": each["thinking"]},
            {"type": "signature_delta", "signature": each["signature"]},
        ]
    if each["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": json.dumps(each["input"])}]
    return []


def _plain(each: Json) -> Json:
    return {key: value for key, value in each.items() if key != "cache_control"}


def _tool(tool: object, index: int) -> str:
    required = {"name": str, "input_schema": dict}
    optional = {"description": str, "type": str, "strict": bool, **_CACHE}
    name: str = fields(tool, f"tools.{index}", required, optional)["name"]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
        raise Refused(f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    return name


def _message(message: object, where: str) -> tuple[Turn, list[Block]]:
    made = fields(message, where, {"role": str, "content": (str, list)})
    if made["role"] not in ("user", "assistant"):
        raise Refused(f"{where}.role: Input should be 'user' or 'assistant'")
    content = made["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not content:
        raise Refused(f"{where}: all messages must have non-empty content")
    parts, blocks = [], []
    for index, each in enumerate(content):
        part, seen = _block(each, f"{where}.content.{index}")
        parts.append(part)
        blocks.append(seen)
    return Turn(made["role"] == "assistant", tuple(parts)), blocks


def _block(each: object, where: str) -> tuple[Part, Block]:
    kind = tag(each, where)
    if kind not in _BLOCKS:
        raise Refused(f"{where}: Input tag '{kind}' found using 'type' does not match any tag")
    made = fields(each, where, *_BLOCKS[kind])
    point = made.get("cache_control") is not None
    if kind == "image":
        source = fields(made["source"], where, {"type": str, "media_type": str, "data": str})
        picture = read_image(source["data"], source["media_type"], where)
        return picture, block("messages", {"type": "image"}, picture, point=point)
    return _part(kind, made, where), block("messages", _plain(made), point=point)


def _part(kind: str, made: Json, where: str) -> Part:
    if kind == "text":
        if not made["text"].strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
        return Text(made["text"])
    if kind == "tool_use":
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", made["id"]):
            raise Refused(f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        return Call(made["name"], made["input"], made["id"])
    if kind == "tool_result":
        content = made.get("content", "")
        texts = [content] if isinstance(content, str) else [
            fields(each, where, *_BLOCKS["text"])["text"] for each in content
        ]  # fmt: skip
        return Result(made["tool_use_id"], "".join(texts))
    if kind == "thinking" and made["signature"] != sign("messages", made["thinking"]):
        raise Refused(f"{where}: Invalid `signature` in `thinking` block")
    if kind == "redacted_thinking" and made["data"] != HIDDEN:
        raise Refused(f"{where}: Invalid `data` in `redacted_thinking` block")
    return Thought(str(made.get("signature", "")))


def _check_pairs(turns: tuple[Turn, ...]) -> None:
    """Each call is answered at the beginning of the next message."""
    asked: list[str] = []
    for index, turn in enumerate([*turns, Turn(False, ())]):
        results = [part.call for part in turn.parts if isinstance(part, Result)]
        first = [isinstance(part, Result) for part in turn.parts]
        if sorted(results) != sorted(asked):
            raise Refused(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(asked)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
                if asked
                else f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks"
            )
        if first != sorted(first, reverse=True):
            raise Refused(f"messages.{index}: `tool_result` blocks must come first")
        asked = [part.id for part in turn.parts if isinstance(part, Call)]


def _thinks(body: Json) -> bool:
    thinking = body.get("thinking") or {"type": "disabled"}
    kind = tag(thinking, "thinking")
    if kind == "enabled":
        budget = thinking.get("budget_tokens", 0)
        if budget < 1024 or budget >= body["max_tokens"]:
            raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    if kind != "disabled" and body.get("temperature", 1) != 1:
        raise Refused("`temperature` may only be set to 1 when thinking is enabled.")
    return kind != "disabled"


def _check_thoughts(messages: list[Json], thinking: bool, memory: Memory) -> None:
    """What was thought before a call comes back before it, unchanged, while thinking is on."""
    for index, message in enumerate(messages if thinking else ()):
        if message["role"] != "assistant" or isinstance(message["content"], str):
            continue
        kinds = [each["type"] for each in message["content"]]
        needed = {memory.thoughts.get(each.get("id", "")) for each in message["content"]} - {None}
        given = {each.get("signature") for each in message["content"]}
        if needed and (kinds[:2] != ["thinking", "redacted_thinking"] or not needed <= given):
            raise Refused(
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block."
            )

"""Amazon Bedrock Converse.

Rules: Amazon, "Bedrock API reference: Converse, Message, ImageBlock, ToolResultBlock", "Prompt
caching for faster model inference", 2026. The words of refusals are the service's.
"""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

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
)
from tests.conformance.messages import LIMITS, Messages
from tests.conformance.rules import MB, ImageLimits, block, check_images, read_image, sign
from tests.conformance.transport import Answer, Incoming
from tests.conformance.wire_format import Memory, Reply, WireFormat, seconds

_IN_MESSAGE = ImageLimits(count=20, bytes=15 * MB // 4, side=8000)
_BODY = shape(cases(__file__, "body"))
_INFERENCE = shape(cases(__file__, "inference"))
_POINT = {"cachePoint": dict}
_BLOCK = shape(cases(__file__, "block"))
_STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "content_filtered"}
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


class Converse(WireFormat):
    """Amazon Bedrock Converse."""

    name = "converse"
    paths = re.compile(r"/model/(?P<model>[^/]+)/converse(?P<stream>-stream)?")
    cache = MarkedCache
    body_limit = 20 * MB
    errors = cases(__file__, "errors")

    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        matched = self.paths.fullmatch(incoming.path)
        model = unquote(matched["model"])  # type: ignore[index]  # it matched
        fields(body, "request", {"messages": list}, _BODY)
        fields(body.get("inferenceConfig", {}), "inferenceConfig", {}, _INFERENCE)
        config = fields(
            body.get("toolConfig", {"tools": []}), "toolConfig", {"tools": list},
            {"toolChoice": dict},
        )  # fmt: skip
        if "toolConfig" in body and not config["tools"]:
            raise Refused("The provided request is not valid: toolConfig.tools is empty")
        tools = tuple(name for tool in config["tools"] if (name := _tool(tool)))
        blocks = _marked("tools", config["tools"]) + _marked("system", body.get("system", ()))
        turns = []
        for index, message in enumerate(body["messages"]):
            turn, seen = _message(message, f"messages.{index}.content")
            turns.append(turn)
            blocks += seen
        _check_roles(turns)
        _check_pairs(turns)
        parts = [part for turn in turns for part in turn.parts]
        if any(isinstance(part, (Call, Result)) for part in parts) and not tools:
            raise Refused(
                "The toolConfig field must be defined when using toolUse and toolResult content "
                "blocks."
            )
        if sum(each.point for each in blocks) > 4:
            raise Refused("The maximum number of cache points is 4")
        if any(each.point for each in blocks) and not re.search("claude|nova", model):
            raise Refused(
                "You invoked an unsupported model or your request did not allow prompt caching."
            )
        if "claude" in model:
            check_images([part for part in parts if isinstance(part, Picture)], LIMITS)
        more = body.get("additionalModelRequestFields", {})
        native = more.get("tool_choice", {}).get("type")
        choice = native or next(iter(config.get("toolChoice", {})), "")
        thinks = more.get("thinking", {}).get("type", "disabled") != "disabled"
        _check_thoughts(body["messages"], thinks, memory)
        system = "".join(each.get("text", "") for each in body.get("system", ()))
        return Asked(
            model, system, tuple(turns), tuple(blocks), tools, choice != "none", thinks,
            streams=incoming.path.endswith("-stream"), partition=model,
            volatile=json.dumps([choice, thinks, any(isinstance(p, Picture) for p in parts)]),
        )  # fmt: skip

    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        said, tokens = reply.said, reply.tokens
        content: list[Json] = []
        if said.thought and asked.thinks:
            signature = sign("converse", said.thought)
            signed = {"text": said.thought, "signature": signature}
            content.append({"reasoningContent": {"reasoningText": signed}})
            memory.thoughts.update({call.id: signature for call in said.calls})
        if said.text:
            content.append({"text": said.text})
        content += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}
            for call in said.calls
        ]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": (
                "tool_use" if said.calls and said.finish == "stop" else _STOPS[said.finish]
            ),
            "usage": {
                "inputTokens": tokens.input - tokens.cached - tokens.written,
                "outputTokens": tokens.output,
                "totalTokens": tokens.input + tokens.output,
                "cacheReadInputTokens": tokens.cached,
                "cacheWriteInputTokens": tokens.written,
            },
            "metrics": {"latencyMs": 12},
        }

    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        named = ("x-amzn-ErrorType", f"{kind}:http://internal.amazon.com/coral/")
        return Answer({"message": message}, status, (named, *seconds(wait, "Retry-After")))

    def empty(self, body: Json) -> Json:
        return {**body, "output": {"message": {"role": "assistant", "content": []}}}

    def filtered(self, body: Json) -> Json:
        return {**body, "stopReason": "guardrail_intervened"}

    def overflow(self, tokens: int, context: int) -> str:
        return "The model returned the following errors: Input is too long for requested model."

    def minimum(self, model: str) -> int:
        return Messages().minimum(model)

    def pack(self, asked: Asked, body: Json) -> Answer:
        named = (("x-amzn-RequestId", "req-1"),)
        if not asked.streams:
            return Answer(body, headers=named)
        data = b"".join(_event(name, value) for name, value in _events(body))
        return Answer(data, headers=named, media="application/vnd.amazon.eventstream")

    def keys(self, headers: Any) -> list[str]:
        """The key, or the name of the one that signed the request."""
        given = str(headers.get("authorization", ""))
        signed = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/", given)
        return [signed[1] if signed else given.removeprefix("Bearer ")]


def _events(body: Json) -> Iterator[tuple[str, Json]]:
    """The events that make up a reply."""
    yield "messageStart", {"role": "assistant"}
    for index, each in enumerate(body["output"]["message"]["content"]):
        place = {"contentBlockIndex": index}
        if "toolUse" in each:
            call = {name: each["toolUse"][name] for name in ("toolUseId", "name")}
            yield "contentBlockStart", {**place, "start": {"toolUse": call}}
        for delta in _deltas(each):
            yield "contentBlockDelta", {**place, "delta": delta}
        yield "contentBlockStop", place
    yield "messageStop", {"stopReason": body["stopReason"]}
    yield "metadata", {"usage": body["usage"], "metrics": body["metrics"]}


def _deltas(each: Json) -> list[Json]:
    if "toolUse" in each:
        return [{"toolUse": {"input": json.dumps(each["toolUse"]["input"])}}]
    if "reasoningContent" in each:
        thought = each["reasoningContent"]["reasoningText"]
        return [{"reasoningContent": {name: thought[name]}} for name in ("text", "signature")]
    return [each]


def _event(name: str, value: Json) -> bytes:
    """One message of AWS's event stream encoding: lengths, headers, payload, checksums."""
    payload = json.dumps(value).encode()
    named = {":message-type": "event", ":event-type": name, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + struct.pack(">BH", 7, len(text)) + text.encode()
        for key, text in named.items()
    )
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", binascii.crc32(message))


def _tool(tool: object) -> str:
    made = fields(tool, "toolConfig.tools", {}, {"toolSpec": dict, **_POINT})
    if "cachePoint" in made:
        return ""
    optional = {"description": str, "strict": bool}
    spec = fields(made["toolSpec"], "toolSpec", {"name": str, "inputSchema": dict}, optional)
    fields(spec["inputSchema"], "inputSchema", {"json": dict})
    return str(spec["name"])


def _marked(section: str, items: Any) -> list[Block]:
    """The blocks of a section; a cache point marks the one before it."""
    blocks: list[Block] = []
    for item in items:
        if "cachePoint" in item:
            _mark(blocks, section)
        else:
            blocks.append(block(section, item))
    return blocks


def _mark(blocks: list[Block], where: str) -> None:
    if not blocks:
        raise Refused(f"{where}: a cachePoint cannot come first")
    blocks[-1] = Block(blocks[-1].section, blocks[-1].data, True)


def _message(message: object, where: str) -> tuple[Turn, list[Block]]:
    made = fields(message, where, {"role": str, "content": list})
    if made["role"] not in ("user", "assistant"):
        raise Refused(f"{where}: role must be one of user, assistant")
    parts: list[Part] = []
    blocks: list[Block] = []
    for index, each in enumerate(made["content"]):
        place = f"{where}.{index}"
        fields(each, place, {}, _BLOCK)
        if len(each) != 1:
            raise Refused(f"The content block at {place} must set one of the following keys")
        if "cachePoint" in each:
            _mark(blocks, place)
            continue
        part = _part(each, place)
        pictures = (part,) if isinstance(part, Picture) else ()
        shown = {"image": True} if pictures else each
        parts.append(part)
        blocks.append(block("messages", shown, *pictures))
    images = [part for part in parts if isinstance(part, Picture)]
    if images and made["role"] == "assistant":
        raise Refused(f"{where}: images are allowed if the role is user")
    check_images(images, _IN_MESSAGE)
    if not parts:
        raise Refused(f"The content field in the Message object at {where} is empty.")
    return Turn(made["role"] == "assistant", tuple(parts)), blocks


def _part(each: Json, where: str) -> Part:
    if "text" in each:
        if not each["text"].strip():
            raise Refused(
                f"The text field in the ContentBlock object at {where} is blank. Add text to the "
                "text field, and try again."
            )
        return Text(each["text"])
    if "image" in each:
        image = fields(each["image"], where, {"format": str, "source": dict})
        data = fields(image["source"], where, {"bytes": str})["bytes"]
        return read_image(data, _MEDIA.get(image["format"], ""), where)
    if "toolUse" in each:
        required = {"toolUseId": str, "name": str, "input": dict}
        call = fields(each["toolUse"], where, required)
        return Call(call["name"], call["input"], call["toolUseId"])
    if "toolResult" in each:
        required = {"toolUseId": str, "content": list}
        made = fields(each["toolResult"], where, required, {"status": str})
        texts = [fields(c, where, {}, {"text": str, "json": dict}) for c in made["content"]]
        return Result(made["toolUseId"], "".join(str(c.get("text", "")) for c in texts))
    thought = fields(each["reasoningContent"], where, {"reasoningText": dict})["reasoningText"]
    fields(thought, where, {"text": str}, {"signature": str})
    if thought.get("signature") != sign("converse", thought["text"]):
        raise Refused(f"{where}: Invalid `signature` in `thinking` block")
    return Thought(thought["signature"])


def _check_roles(turns: list[Turn]) -> None:
    if not turns or turns[0].by_model:
        raise Refused("A conversation must start with a user message.")
    if any(first.by_model is second.by_model for first, second in pairwise(turns)):
        raise Refused("A conversation must alternate between user and assistant roles.")


def _check_pairs(turns: list[Turn]) -> None:
    asked: list[str] = []
    for index, turn in enumerate([*turns, Turn(False, ())]):
        results = [part.call for part in turn.parts if isinstance(part, Result)]
        if sorted(results) != sorted(asked):
            raise Refused(
                f"Expected toolResult blocks at messages.{index}.content for the following Ids: "
                f"{', '.join(asked)}, but found: {', '.join(results)}"
            )
        asked = [part.id for part in turn.parts if isinstance(part, Call)]


def _check_thoughts(messages: list[Json], thinks: bool, memory: Memory) -> None:
    for index, message in enumerate(messages if thinks else ()):
        content = message["content"]
        ids = [each["toolUse"]["toolUseId"] for each in content if "toolUse" in each]
        if any(each in memory.thoughts for each in ids) and "reasoningContent" not in content[0]:
            raise Refused(
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                "found `tool_use`."
            )

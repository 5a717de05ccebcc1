"""Google generateContent, also at Vertex AI's addresses.

Rules: Google, "Gemini API: GenerateContent", "Function calling", "Thought signatures", "Image
understanding", "Context caching", 2026. The words of refusals are the service's.
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
    Thought,
    Turn,
    fields,
    shape,
)
from tests.conformance.rules import MB, ImageLimits, block, check_images, read_image, sign
from tests.conformance.transport import Answer, Incoming
from tests.conformance.wire_format import Memory, Reply, WireFormat

_LIMITS = ImageLimits(count=3000, bytes=7 * MB)
_BODY = shape(cases(__file__, "body"))
_GENERATION = shape(cases(__file__, "generation"))
_PART = shape(cases(__file__, "part"))
_MINIMUM = re.compile(r"gemini-2\.5")
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


class Gemini(WireFormat):
    """Google generateContent."""

    name = "gemini"
    paths = re.compile(
        r"/v1(beta)?/models/(?P<model>[^/:]+):generateContent|"
        r"/v1(beta1)?/(projects/[^/]+/locations/[^/]+/)?publishers/google/models/"
        r"(?P<vertex>[^/:]+):generateContent"
    )
    body_limit = 20 * MB
    key_headers = ("x-goog-api-key", "authorization")
    errors = cases(__file__, "errors")

    def read(self, incoming: Incoming, body: Json, memory: Memory) -> Asked:
        matched = self.paths.fullmatch(incoming.path)
        model = str(matched["model"] or matched["vertex"])  # type: ignore[index]  # it matched
        made = fields(_camel(body), "request", {"contents": list}, _BODY)
        config = fields(_camel(made.get("generationConfig", {})), "generation_config", {},
                        _GENERATION)  # fmt: skip
        if "responseModalities" in config and config["responseModalities"] != ["TEXT"]:
            raise Refused("* GenerateContentRequest.generation_config: unsupported modality")
        tools = _tools(made.get("tools", ()))
        system = made.get("systemInstruction", {"parts": []})
        blocks = [block("tools", each) for each in made.get("tools", ())]
        blocks.insert(0, block("system", system))
        turns = []
        for index, content in enumerate(made["contents"]):
            turn, seen = _content(content, f"contents[{index}]")
            turns.append(turn)
            blocks.append(seen)
        _check_turns(turns)
        _check_signatures(made["contents"], memory)
        check_images([p for t in turns for p in t.parts if isinstance(p, Picture)], _LIMITS)
        calling = _camel(_camel(made.get("toolConfig", {})).get("functionCallingConfig", {}))
        return Asked(
            model, "".join(part["text"] for part in system["parts"]), tuple(turns), tuple(blocks),
            tools, may_call=calling.get("mode", "AUTO") != "NONE", thinks=True,
            partition=model,
        )  # fmt: skip

    def write(self, asked: Asked, reply: Reply, memory: Memory) -> Json:
        said, tokens = reply.said, reply.tokens
        parts: list[Json] = [{"text": said.thought, "thought": True}] if said.thought else []
        if said.text:
            parts.append({"text": said.text})
        for index, call in enumerate(said.calls):
            inner = {"id": call.id, "name": call.name, "args": call.arguments}
            part: Json = {"functionCall": inner}
            if index == 0:  # of calls in parallel the first carries the signature
                part["thoughtSignature"] = _signature(call.id, call.name, call.arguments)
                memory.thoughts[call.id] = part["thoughtSignature"]
            parts.append(part)
        candidate: Json = {"index": 0, "finishReason": _FINISH[said.finish]}
        candidate["content"] = {"role": "model", "parts": parts}
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": tokens.input,
                "cachedContentTokenCount": tokens.cached,
                "candidatesTokenCount": tokens.output - tokens.reasoning,
                "thoughtsTokenCount": tokens.reasoning,
                "totalTokenCount": tokens.input + tokens.output,
            },
            "modelVersion": reply.model,
            "responseId": reply.id,
        }

    def error(self, status: int, kind: str, message: str, wait: float | None) -> Answer:
        retry = "type.googleapis.com/google.rpc.RetryInfo"
        details = [] if wait is None else [{"@type": retry, "retryDelay": f"{wait:g}s"}]
        body = {"code": status, "message": message, "status": kind, "details": details}
        return Answer({"error": body}, status)

    def empty(self, body: Json) -> Json:
        return {key: value for key, value in body.items() if key != "candidates"}

    def filtered(self, body: Json) -> Json:
        blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
        return {**self.empty(body), **blocked}

    def overflow(self, tokens: int, context: int) -> str:
        return (
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({context})."
        )

    def minimum(self, model: str) -> int:  # "Context caching", 2026-10-13
        return 2048 if _MINIMUM.search(model) else 4096


def _camel(value: Any) -> Json:
    """The fields of a message; either spelling of names is accepted."""
    if not isinstance(value, dict):
        raise Refused("Invalid value: expected an object")
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): each for key, each in value.items()}


def _signature(id_: str, name: str, given: Json) -> str:
    return sign("gemini", id_, name, json.dumps(given, sort_keys=True))


def _tools(tools: Any) -> tuple[str, ...]:
    names = []
    for tool in tools:
        for each in fields(_camel(tool), "tools", {"functionDeclarations": list})[
            "functionDeclarations"
        ]:
            schemas = {"parameters": dict, "parametersJsonSchema": dict}
            made = fields(_camel(each), "tools", {"name": str}, {"description": str, **schemas})
            names.append(made["name"])
    return tuple(names)


def _content(content: object, where: str) -> tuple[Turn, Block]:
    made = fields(content, where, {"parts": list, "role": str})
    if made["role"] not in ("user", "model"):
        raise Refused("Please use a valid role: user, model.")
    if not made["parts"]:
        raise Refused(f"* GenerateContentRequest.{where}.parts: contents is not specified")
    by_model = made["role"] == "model"
    parts, shown = [], []
    for index, each in enumerate(made["parts"]):
        part = _part(_camel(each), f"{where}.parts[{index}]")
        parts.append(part)
        shown.append({"image": True} if isinstance(part, Picture) else each)
    pictures = [part for part in parts if isinstance(part, Picture)]
    return Turn(by_model, tuple(parts)), block("messages", [by_model, *shown], *pictures)


def _part(part: Json, where: str) -> Part:
    fields(part, where, {}, _PART)
    data = {"text", "inlineData", "functionCall", "functionResponse"} & set(part)
    if len(data) != 1:
        raise Refused(f"{where}.data: required oneof field 'data' must have one initialized field")
    if "inlineData" in part:
        inline = fields(_camel(part["inlineData"]), where, {"mimeType": str, "data": str})
        return read_image(inline["data"], inline["mimeType"], where)
    if "functionCall" in part:
        call = fields(part["functionCall"], where, {"name": str}, {"id": str, "args": dict})
        return Call(call["name"], call.get("args", {}), call.get("id", ""))
    if "functionResponse" in part:
        required = {"name": str, "response": dict}
        made = fields(part["functionResponse"], where, required, {"id": str})
        values = made["response"].values()
        return Result(made["name"], "".join(str(value) for value in values))
    return Thought(part["text"]) if part.get("thought") else Text(part["text"])


def _check_turns(turns: list[Turn]) -> None:
    """As many responses as calls, of the same names, in the very next turn."""
    asked: list[str] = []
    before = True
    for turn in [*turns, Turn(False, ())]:
        results = [part.call for part in turn.parts if isinstance(part, Result)]
        if results != asked and (asked or results):
            raise Refused(
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        asked = [part.name for part in turn.parts if isinstance(part, Call)]
        if asked and before:
            raise Refused(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        before = turn.by_model


def _check_signatures(contents: list[Json], memory: Memory) -> None:
    for index, content in enumerate(contents):
        for part in map(_camel, content["parts"]):
            call = part.get("functionCall", {})
            needed = memory.thoughts.get(call.get("id", ""))
            given = part.get("thoughtSignature", "").translate(str.maketrans("-_", "+/"))
            if needed is not None and given != needed:
                raise Refused(
                    f"Function call `{call['name']}` in the {index}. content block is missing a "
                    "`thought_signature`."
                )

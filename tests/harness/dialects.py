"""What the providers' servers say and ask for, for tests: Anthropic Messages, Google
generateContent, Bedrock Converse. Each plays a script over real HTTP, as ``openai_server`` does,
and holds requests to the rules that the real one enforces: every call is answered at once and in
its place, images come as bytes, and what was thought comes back with the signature it had."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from harness.models.providers.anthropic import AnthropicModel
from harness.models.providers.base import ProviderModel
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.google import GoogleModel
from tests.harness.openai_server import Answer, Json, Served, serve

Calls = list[tuple[str, str, Json]]
KEY = "sk-do-not-tell"


@dataclass(frozen=True)
class Dialect:
    """One provider's protocol. ``speak(text, calls, thought)`` is a whole reply."""

    name: str
    model: type[ProviderModel]
    path: str
    key_header: str
    given: str  # the key that the model is given; boto3 finds its own
    key: str  # how the header begins that carries it
    served: str  # the version that the server says it serves
    speak: Callable[[str, Calls, str], Answer]
    check: Callable[[Json], list[str]]
    images: Callable[[Json], list[bytes]]
    system: Callable[[Json], str]
    failures: dict[str, Answer]  # by the class that each is

    def serve(self, *script: Answer | Callable[[Json], Answer]) -> AbstractContextManager[Served]:
        return serve(*script, root="", check=self.check, path=self.path, key_header=self.key_header)


def sign(thought: str) -> str:
    """What only the server could have put beside a thought."""
    return base64.b64encode(hashlib.sha256(b"key" + thought.encode()).digest()).decode()


def _pair(asked: list[str], answered: list[str]) -> list[str]:
    return [] if asked == answered else [f"calls {asked} were answered by {answered}"]


# --- Anthropic Messages ---


def _speak_anthropic(text: str, calls: Calls, thought: str = "") -> Answer:
    blocks: list[Json] = []
    if thought:
        blocks.append({"type": "thinking", "thinking": thought, "signature": sign(thought)})
        blocks.append({"type": "redacted_thinking", "data": sign("hidden")})
    if text:
        blocks.append({"type": "text", "text": text})
    blocks += [
        {"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls
    ]
    return _anthropic(blocks, "tool_use" if calls else "end_turn")


def _anthropic(blocks: list[Json], stop: str) -> Answer:
    usage = {"input_tokens": 100, "output_tokens": 20}
    return Answer(
        {
            "id": "msg_1", "type": "message", "role": "assistant", "content": blocks,
            "model": "claude-served-20261101", "stop_reason": stop, "stop_sequence": None,
            "usage": usage,
        }
    )  # fmt: skip


def _check_anthropic(request: Json) -> list[str]:
    faults: list[str] = []
    asked: list[str] = []
    for index, message in enumerate(request["messages"]):
        if (index % 2 == 0) is not (message["role"] == "user"):
            faults.append("the roles do not alternate")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        faults += _pair(asked, results)
        if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
            faults.append("a result behind what is no result")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        thoughts = [block for block in blocks if block["type"] == "thinking"]
        if any(block["signature"] != sign(block["thinking"]) for block in thoughts):
            faults.append("a thought with another signature")
        if thoughts and [block["type"] for block in blocks[:2]] != [
            "thinking",
            "redacted_thinking",
        ]:
            faults.append("a thought in another place")
        faults += [
            "an image that is not bytes"
            for block in blocks
            if block["type"] == "image" and block["source"]["type"] != "base64"
        ]
    if not isinstance(request["max_tokens"], int):
        faults.append("no max_tokens")
    return faults


def _blocks(request: Json) -> Iterator[Json]:
    for message in request["messages"]:
        if not isinstance(message["content"], str):
            yield from message["content"]


def _anthropic_images(request: Json) -> list[bytes]:
    return [
        base64.b64decode(block["source"]["data"])
        for block in _blocks(request)
        if block["type"] == "image"
    ]


def _anthropic_system(request: Json) -> str:
    system = request["system"]
    return system if isinstance(system, str) else system[0]["text"]


def _anthropic_error(status: int, kind: str, *headers: tuple[str, str], say: str = "") -> Answer:
    error = {"type": kind, "message": say or "SECRET PROMPT quoted back"}
    return Answer({"type": "error", "error": error, "request_id": "req_1"}, status, headers)


ANTHROPIC = Dialect(
    "anthropic",
    AnthropicModel,
    r"/v1/messages(\?beta=true)?",
    "Authorization",
    KEY,
    f"Bearer {KEY}",
    "claude-served-20261101",
    _speak_anthropic,
    _check_anthropic,
    _anthropic_images,
    _anthropic_system,
    {
        "rate_limit": _anthropic_error(429, "rate_limit_error", ("retry-after", "7")),
        "overload": _anthropic_error(529, "overloaded_error"),
        "auth": _anthropic_error(401, "authentication_error"),
        "bad_request": _anthropic_error(400, "invalid_request_error"),
        "context_length": _anthropic_error(
            400, "invalid_request_error", say="prompt is too long: 210000 tokens > 200000 maximum"
        ),
        "content_filter": _anthropic([], "refusal"),
        "malformed": Answer({"type": "message", "content": 7}),
    },
)


# --- Google generateContent ---

_PLAIN = str.maketrans("-_", "+/")  # its client sends either alphabet of base64


def _speak_google(text: str, calls: Calls, thought: str = "") -> Answer:
    parts: list[Json] = [{"text": thought, "thought": True}] if thought else []
    if text:
        parts.append({"text": text})
    for index, (id_, name, given) in enumerate(calls):
        part: Json = {"functionCall": {"id": id_, "name": name, "args": given}}
        # As Gemini does it: of calls in parallel the first carries the signature.
        parts.append(part | ({"thoughtSignature": sign(thought + name)} if index == 0 else {}))
    return _google({"content": {"role": "model", "parts": parts}, "finishReason": "STOP"})


def _google(candidate: Json | None, **more: Any) -> Answer:
    usage = {
        "promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5,
        "totalTokenCount": 120,
    }  # fmt: skip
    found = {} if candidate is None else {"candidates": [{"index": 0, **candidate}]}
    return Answer(
        {**found, "usageMetadata": usage, "modelVersion": "gemini-served-001",
         "responseId": "r1", **more}
    )  # fmt: skip


def _check_google(request: Json) -> list[str]:
    faults: list[str] = []
    asked: list[str] = []
    answered: list[str] = []
    for content in request["contents"]:
        parts = content["parts"]
        results = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        calls = [part for part in parts if "functionCall" in part]
        answered += results
        if content["role"] == "model":
            faults += _pair(asked, answered)
            answered, asked = [], [part["functionCall"]["name"] for part in calls]
            said = "".join(part["text"] for part in parts if part.get("thought"))
            expected = [sign(said + part["functionCall"]["name"]) for part in calls[:1]]
            found = [
                part["thoughtSignature"].translate(_PLAIN)
                for part in calls
                if "thoughtSignature" in part
            ]
            if found != expected:
                faults.append("a call without the signature that it had")
    faults += _pair(asked, answered)
    return faults


def _google_images(request: Json) -> list[bytes]:
    return [
        base64.b64decode(part["inlineData"]["data"].translate(str.maketrans("-_", "+/")))
        for content in request["contents"]
        for part in content["parts"]
        if "inlineData" in part
    ]


def _google_error(status: int, name: str, *details: Json, say: str = "") -> Answer:
    error = {"code": status, "message": say or "SECRET PROMPT quoted back", "status": name}
    return Answer({"error": {**error, "details": list(details)}}, status)


GOOGLE = Dialect(
    "google",
    GoogleModel,
    r"/v1beta/models/asked-model:generateContent",
    "x-goog-api-key",
    KEY,
    KEY,
    "gemini-served-001",
    _speak_google,
    _check_google,
    _google_images,
    lambda request: str(request["systemInstruction"]["parts"][0]["text"]),
    {
        "rate_limit": _google_error(
            429,
            "RESOURCE_EXHAUSTED",
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
        ),
        "overload": _google_error(503, "UNAVAILABLE"),
        "auth": _google_error(403, "PERMISSION_DENIED"),
        "bad_request": _google_error(400, "INVALID_ARGUMENT"),
        "context_length": _google_error(
            400,
            "INVALID_ARGUMENT",
            say="The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        "content_filter": _google(None, promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
        "malformed": Answer({"candidates": 7}),
    },
)

# The reply itself was stopped, half-way.
GOOGLE_SAFETY = _google(
    {"content": {"role": "model", "parts": [{"text": "partly"}]}, "finishReason": "SAFETY"}
)


# --- Bedrock Converse ---


def _speak_bedrock(text: str, calls: Calls, thought: str = "") -> Answer:
    content: list[Json] = []
    if thought:
        signed = {"text": thought, "signature": sign(thought)}
        content.append({"reasoningContent": {"reasoningText": signed}})
    if text:
        content.append({"text": text})
    content += [
        {"toolUse": {"toolUseId": id_, "name": name, "input": given}} for id_, name, given in calls
    ]
    return _bedrock(content, "tool_use" if calls else "end_turn")


def _bedrock(content: list[Json], stop: str) -> Answer:
    return Answer(
        {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": stop,
            "usage": {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120},
            "metrics": {"latencyMs": 12},
        }
    )


def _check_bedrock(request: Json) -> list[str]:
    faults: list[str] = []
    asked: list[str] = []
    for index, message in enumerate(request["messages"]):
        if (index % 2 == 0) is not (message["role"] == "user"):
            faults.append("the roles do not alternate")
        content = message["content"]
        faults += _pair(
            asked, [each["toolResult"]["toolUseId"] for each in content if "toolResult" in each]
        )
        asked = [each["toolUse"]["toolUseId"] for each in content if "toolUse" in each]
        for each in content:
            if "reasoningContent" in each:
                thought = each["reasoningContent"]["reasoningText"]
                if thought["signature"] != sign(thought["text"]):
                    faults.append("a thought with another signature")
            if each.get("text", "x").strip() == "":
                faults.append("a text without a word in it")
    return faults


def _bedrock_images(request: Json) -> list[bytes]:
    return [
        base64.b64decode(each["image"]["source"]["bytes"])
        for message in request["messages"]
        for each in message["content"]
        if "image" in each
    ]


def _bedrock_error(status: int, kind: str, *headers: tuple[str, str], say: str = "") -> Answer:
    named = ("x-amzn-ErrorType", f"{kind}:http://internal.amazon.com/coral/")
    return Answer({"message": say or "SECRET PROMPT quoted back"}, status, (named, *headers))


BEDROCK = Dialect(
    "bedrock",
    BedrockModel,
    r"/model/asked-model/converse",
    "Authorization",
    "",
    "AWS4-HMAC-SHA256 Credential=AKIDTEST/",
    "asked-model",  # Converse does not tell another
    _speak_bedrock,
    _check_bedrock,
    _bedrock_images,
    lambda request: str(request["system"][0]["text"]),
    {
        "rate_limit": _bedrock_error(429, "ThrottlingException", ("Retry-After", "7")),
        "overload": _bedrock_error(503, "ServiceUnavailableException"),
        "timeout": _bedrock_error(408, "ModelTimeoutException"),
        "auth": _bedrock_error(403, "AccessDeniedException"),
        "bad_request": _bedrock_error(400, "ValidationException"),
        "context_length": _bedrock_error(
            400, "ValidationException", say="Input is too long for requested model."
        ),
        "content_filter": _bedrock([{"text": "partly"}], "guardrail_intervened"),
        "malformed": Answer(b"{not json"),
    },
)

DIALECTS = (ANTHROPIC, GOOGLE, BEDROCK)


def streamed(answer: Answer) -> Answer:
    """An answer of Anthropic's as the events that its SDK asks for where replies may be long."""
    assert isinstance(answer.body, dict)
    body = answer.body
    begun = {**body, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(body["content"]):
        empty = {"text": "", "thinking": "", "signature": "", "input": {}}
        start = {**block, **{key: value for key, value in empty.items() if key in block}}
        deltas = {
            "text": [{"type": "text_delta", "text": block.get("text")}],
            "thinking": [
                {"type": "thinking_delta", "thinking": block.get("thinking")},
                {"type": "signature_delta", "signature": block.get("signature")},
            ],
            "tool_use": [
                {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
            ],
        }
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in deltas.get(block["type"], [])
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer("".join(lines).encode(), headers=(("Content-Type", "text/event-stream"),))

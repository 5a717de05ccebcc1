"""A small server that speaks the OpenAI chat protocol, for tests: it plays a script, checks the
form of what it is asked, and remembers it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.transport import Answer, Incoming, Json, listening

Script = list[Answer | Callable[[Json], Answer]]


@dataclass
class Served:
    """The running server: what it will say, and what it was asked. ``always``, where it is
    given, makes every answer from its request; else the script is played once."""

    url: str
    script: Script
    always: Callable[[Json], Answer] | None = None
    requests: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    check: Callable[[Json], list[str]] = field(default=lambda request: check_request(request))
    path: str = "/v1/chat/completions"  # a pattern
    key_header: str = "Authorization"

    def next(self, request: Json, key: str) -> Answer:
        self.requests.append(request)
        self.keys.append(key)
        self.faults += self.check(request)
        answer = self.always or self.script.pop(0)
        return answer if isinstance(answer, Answer) else answer(request)


def completion(
    text: str | None = None,
    calls: list[tuple[str, str, Json]] | None = None,
    finish: str = "stop",
    usage: Json | None = None,
    **message: Any,
) -> Answer:
    """A chat completion as servers send it; ``calls`` are (id, name, arguments)."""
    made = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for id_, name, arguments in calls or []
    ]
    said = {"role": "assistant", "content": text, **message}
    if made:
        said, finish = {**said, "tool_calls": made}, "tool_calls"
    body: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "served-model-2026-11-01",
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
    }
    if usage is None:
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return Answer({**body, "usage": usage} if usage else body)


def failure(status: int, code: str = "", headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    body = {"error": {"message": "SECRET PROMPT quoted back", "type": code, "code": code or None}}
    return Answer(body, status, headers)


def check_request(request: Json) -> list[str]:
    """What is wrong with a request, by the rules that real servers enforce."""
    faults: list[str] = []
    open_calls: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                faults.append("a tool's answer without its call")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            faults.append(f"calls without an answer: {open_calls}")
        open_calls = [each["id"] for each in message.get("tool_calls", ())]
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            if part["type"] == "image_url" and not part["image_url"]["url"].startswith("data:"):
                faults.append("an image that is not a data URL")
    for tool in request.get("tools", ()):
        if tool["type"] != "function" or tool["function"]["parameters"]["type"] != "object":
            faults.append("a tool of another form")
    return faults


@contextmanager
def serve(
    *script: Answer | Callable[[Json], Answer],
    always: Callable[[Json], Answer] | None = None,
    root: str = "/v1",
    host: str = "127.0.0.1",
    **form: Any,
) -> Iterator[Served]:
    """A server at ``url``, which ends in ``root``; ``form`` tells of another protocol than
    OpenAI's: its ``check``, ``path`` and ``key_header``."""
    served = Served("", list(script), always, **form)

    def respond(incoming: Incoming) -> Answer:
        if not re.fullmatch(served.path, incoming.path):
            served.faults.append(f"a request to {incoming.path}")
            return Answer({"error": {"message": "Not found"}}, 404)
        key = incoming.headers.get(served.key_header.lower(), "")
        return served.next(json.loads(incoming.body), key)

    with listening(respond, host) as url:
        served.url = url + root
        yield served

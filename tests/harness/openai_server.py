"""A small server that speaks the OpenAI chat protocol, for tests: it plays a script, checks the
form of what it is asked, and remembers it."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One response: a status, a body (JSON unless bytes), and how it is delivered."""

    body: Json | bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0  # of silence before it
    drop: bool = False  # the connection, half-way


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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not re.fullmatch(self.served.path, self.path):
            self.served.faults.append(f"a request to {self.path}")
            self.send_error(404)
            return
        answer = self.served.next(body, self.headers.get(self.served.key_header, ""))
        time.sleep(answer.seconds)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if answer.drop else data)
        if answer.drop:
            self._reset()

    def _reset(self) -> None:
        """Close as a crashed server does: a reset, in the middle of the body."""
        self.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(
    *script: Answer | Callable[[Json], Answer],
    always: Callable[[Json], Answer] | None = None,
    root: str = "/v1",
    **form: Any,
) -> Iterator[Served]:
    """A server at ``url``, which ends in ``root``; ``form`` tells of another protocol than
    OpenAI's: its ``check``, ``path`` and ``key_header``."""
    served = Served("", list(script), always, **form)
    handler = type("Handler", (_Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.url = f"http://127.0.0.1:{server.server_port}{root}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

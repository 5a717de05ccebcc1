"""A server that streams what a test tells it to, line by line, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Line = bytes | float | Callable[[Json], None]  # bytes to send, seconds to wait, what to do


def said(text: str) -> bytes:
    """A round in which the model says something."""
    chunk = {"role": "assistant", "content": text, "type": "chunk"}
    done = {"role": "assistant", "content": "", "type": "done"}
    return json.dumps(chunk).encode() + b"\n" + json.dumps(done).encode() + b"\n"


def result(text: str, **more: str) -> bytes:
    told = {"role": "tool_call", "content": f"Tool result: {text}", **more}
    return json.dumps(told).encode() + b"\n"


@dataclass(frozen=True)
class Talk:
    """One response: what is done before it, its lines, whether the connection is reset then."""

    lines: tuple[Line, ...] = ()
    status: int = 200
    reset: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    before: Callable[[Json], None] = lambda request: None


@dataclass
class Served:
    """The running server: each request has the next of the talks, or the last one again."""

    url: str
    talks: list[Talk]
    requests: list[Json] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        served = self.served
        talk = served.talks[min(len(served.requests), len(served.talks) - 1)]
        served.requests.append(request)
        served.keys.append(self.headers.get("Authorization"))
        self.close_connection = True
        talk.before(request)
        self.send_response(talk.status)
        for name, value in talk.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self._play(talk, request)
        except OSError:
            return  # the client had enough
        if talk.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()

    def _play(self, talk: Talk, request: Json) -> None:
        for line in talk.lines:
            if isinstance(line, bytes):
                self.wfile.write(line)
                self.wfile.flush()
            elif isinstance(line, float):
                self.served.over.wait(line)
            else:
                line(request)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def stream(*talks: Talk) -> Iterator[Served]:
    served = Served("", list(talks))
    handler = type("Handler", (_Handler,), {"served": served})
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        served.url = url
        try:
            yield served
        finally:
            served.over.set()


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server while it serves."""
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

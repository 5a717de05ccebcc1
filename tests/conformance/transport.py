"""An HTTP server for tests: it answers each request with the bytes, at the speed and with the end
that a test asks for."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
JSON_TYPE = "application/json"
_PIECES = 8  # of a body that drips


@dataclass(frozen=True)
class Incoming:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def digest(self) -> bytes:
        """What is equal if it is sent again."""
        return hashlib.sha256(self.path.encode() + b"\n" + self.body).digest()


@dataclass(frozen=True)
class Answer:
    """One response: a status, a body (JSON unless bytes), and how it is delivered."""

    body: Json | bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0  # of silence before it
    drop: bool = False  # the connection is reset half-way through the body
    drip: float = 0.0  # seconds that the body takes, in pieces
    media: str = JSON_TYPE
    times: int = 1  # that it is sent

    @property
    def data(self) -> bytes:
        """The body's bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Respond = Callable[[Incoming], Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    respond: Respond

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:  # the client gave up
            self.close_connection = True
            return
        answer = type(self).respond(
            Incoming(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        )
        with suppress(ConnectionError):  # the client may have given up
            for _ in range(answer.times):
                self._send(answer)

    def _send(self, answer: Answer) -> None:
        time.sleep(answer.seconds)
        data = answer.data
        self.send_response(answer.status, _phrase(answer.status))
        self.send_header("Content-Type", answer.media)
        self.send_header("Content-Length", str(len(data)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if answer.drip:
            self._drip(data, answer.drip)
        else:
            self.wfile.write(data[: len(data) // 2] if answer.drop else data)
            self.wfile.flush()
        if answer.drop:
            self._reset()

    def _drip(self, data: bytes, seconds: float) -> None:
        size = -(-len(data) // _PIECES)
        for start in range(0, len(data), size):
            self.wfile.write(data[start : start + size])
            self.wfile.flush()
            time.sleep(seconds / _PIECES)

    def _reset(self) -> None:
        """Close as a crashed server does: with a reset in the middle of the body."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is no error of the server's."""


@contextmanager
def listening(respond: Respond, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve on a free port of this machine; yields the address, without a slash at its end."""
    server = _Server((host, 0), type("Handler", (_Handler,), {"respond": respond}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

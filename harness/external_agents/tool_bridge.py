"""The tool bridge: the tools of one episode's sandbox over HTTP, for an agent server elsewhere.

``GET /tools`` lists the tools, ``POST /tools/NAME`` with a JSON object of arguments carries one
out. A request needs the episode's bearer token, which ends with the episode. One listener serves
all episodes of a process, as long as there are any. It logs nothing.
"""

from __future__ import annotations

import base64
import hmac
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from generators.task import Limits
from harness.agent.tools import MAX_ARGUMENT_CHARS, TOOLS, use_tool
from harness.episode import ToolUse
from harness.errors import AttemptFailed, HarnessError
from harness.external_agents.wire import RefusedCall
from harness.model import ToolCall
from harness.sandboxes.sandbox import Sandbox

SECONDS = 60.0  # for an idle connection, for a request, and for a response


class DeadlineHandler(BaseHTTPRequestHandler):
    """Waits ``seconds`` for a request, and as long from its first byte to the last of its body; a
    socket's own timeout restarts with each byte. It logs nothing."""

    seconds = SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "dosimeter"
    sys_version = ""

    def setup(self) -> None:
        """Read through the deadline."""
        super().setup()
        self._bounded = _Bounded(self.connection)
        self.rfile = io.BufferedReader(self._bounded)

    def handle_one_request(self) -> None:
        """Handle a request within its deadline."""
        # The base class catches the timeout of a read and closes the connection.
        self.restart_deadline()
        super().handle_one_request()

    def restart_deadline(self) -> None:
        """Wait for the next bytes as if for a new request."""
        self._bounded.wait(self.seconds)

    def end_headers(self) -> None:
        """Restart the timeout for the response."""
        self.connection.settimeout(self.seconds)
        super().end_headers()

    def read_body(self, most: int) -> bytes:
        """Return the body of a request. Raises RefusedCall if it has more than ``most`` bytes or is
        of unstated length, ConnectionError if it is cut off."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RefusedCall(411, "give Content-Length")
        if len(length) > 12 or int(length) > most:
            raise RefusedCall(413, f"at most {most:,} bytes are read")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the body was cut off")
        return body

    def send_body(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send a response; nothing if the client has hung up."""
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: paths, addresses and requests may be private."""


class _Bounded(io.RawIOBase):
    """A socket's bytes, with a deadline for the first byte and another for all of them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._seconds = self._ends = 0.0
        self._silent = True

    def wait(self, seconds: float) -> None:
        """Restart both deadlines."""
        self._seconds, self._ends, self._silent = seconds, time.monotonic() + seconds, True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request was too slow")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if self._silent:
            self._silent, self._ends = False, time.monotonic() + self._seconds
        return count


MAX_BODY_BYTES = 6 * MAX_ARGUMENT_CHARS  # an escaped character takes up to six
MAX_CONNECTIONS = 512  # at once; each takes a thread
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class BridgedTools:
    """The tools of one episode while they are open, with a record of calls and results."""

    sandbox: Sandbox
    limits: Limits
    max_calls: int
    tick: Callable[[], float]
    url: str = ""
    token: str = field(default="", repr=False)
    calls: list[ToolCall] = field(default_factory=list)
    uses: list[ToolUse] = field(default_factory=list)
    lost: AttemptFailed | None = None
    touched: bool = False  # True once a call was begun
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _open: bool = True

    def use(self, name: str, arguments: str) -> ToolUse | None:
        """Carry out one call, after those before it. None once the tools are closed, the working
        time is used up, or the sandbox is lost."""
        with self._lock:
            left = self.limits.working_seconds - sum(use.seconds for use in self.uses)
            lost, used_up = self.lost is not None, left <= 0 or len(self.calls) >= self.max_calls
            if lost or used_up or not self._open:
                return None
            self.touched = True
            call = ToolCall(f"call-{len(self.calls) + 1}", name, arguments)
            seconds = min(self.limits.tool_seconds, max(left, 1.0))
            try:
                done = use_tool(call, self.sandbox, self.limits, seconds, self.tick)
            except AttemptFailed as failed:
                self.lost = failed
                return None
            self.calls.append(call)
            self.uses.append(done)
            return done

    def close(self) -> None:
        """Take no more calls. Returns when none is under way."""
        self._open = False
        with self._lock:
            pass


class Bridge:
    """Listens at ``host`` and ``port`` (0: any that is free) while an episode's tools are open.

    ``url`` is the address given to servers, if they reach this machine under another name.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, url: str = "") -> None:
        self._host = host
        self._port = port
        self._url = url
        self._lock = threading.Lock()
        self._open: dict[str, BridgedTools] = {}
        self._listener: _Listener | None = None

    @contextmanager
    def serve(self, tools: BridgedTools) -> Iterator[BridgedTools]:
        """Serve the tools until the block ends, and set their ``url`` and ``token``. Raises
        HarnessError if the address cannot be listened at."""
        tools.token = secrets.token_urlsafe(32)
        with self._lock:
            tools.url = self._listen()
            self._open[tools.token] = tools
        try:
            yield tools
        finally:
            with self._lock:
                del self._open[tools.token]
                if not self._open and self._listener is not None:
                    self._listener.shutdown()
                    self._listener.server_close()
                    self._listener = None
            tools.close()

    def find(self, token: str) -> BridgedTools | None:
        """The tools that a token opens. Each is compared in constant time, and all of them are."""
        with self._lock:
            known = list(self._open.items())
        given = token.encode("utf-8", "replace")
        matching = [tools for each, tools in known if hmac.compare_digest(each.encode(), given)]
        return matching[0] if matching else None

    def _listen(self) -> str:
        if self._listener is None:
            try:
                self._listener = _Listener((self._host, self._port), self)
            except OSError as error:
                raise HarnessError(
                    f"the tool bridge cannot listen at {self._host}:{self._port}: "
                    f"{error.strerror or error}; give another `bridge: HOST:PORT`, or port 0 for "
                    "any that is free"
                ) from None
            serve = self._listener.serve_forever
            threading.Thread(target=serve, args=(_POLL_SECONDS,), daemon=True).start()
        host = f"[{self._host}]" if ":" in self._host else self._host
        return self._url or f"http://{host}:{self._listener.server_port}"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a connection that idles must not hold up the end of an episode

    def __init__(self, address: tuple[str, int], bridge: Bridge) -> None:
        self.bridge = bridge
        self._capacity = threading.Semaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Close new connections while all threads are taken."""
        if self._capacity.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._capacity.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: hanging up is normal, and the request may be private."""


class _Handler(DeadlineHandler):
    server: _Listener

    def do_GET(self) -> None:
        self._serve(lambda tools: list_tools(), self.path == "/tools")

    def do_POST(self) -> None:
        self._serve(self._use, self.path.startswith("/tools/"))

    def _serve(self, answer: Callable[[BridgedTools], bytes], known: bool) -> None:
        """Send the answer to a request with a token, at a ``known`` path."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        tools = self.server.bridge.find(token.strip()) if scheme.lower() == "bearer" else None
        try:
            if tools is None:
                raise RefusedCall(401, "no such token, or its episode is over")
            if not known:
                raise RefusedCall(404, "there are GET /tools and POST /tools/NAME")
            self.send_body(200, answer(tools))
        except RefusedCall as refused:
            self.close_connection = True  # its body has not been read
            self.send_body(refused.status, json.dumps({"error": refused.reason}).encode())

    def _use(self, tools: BridgedTools) -> bytes:
        arguments = self.read_body(MAX_BODY_BYTES).decode("utf-8", "replace")
        used = tools.use(self.path.removeprefix("/tools/"), arguments)
        if used is None:
            raise RefusedCall(410, "the tools are closed: out of time, of calls, or lost")
        return show_result(used)


def list_tools() -> bytes:
    """The answer to ``GET /tools``."""
    return json.dumps({"tools": [asdict(spec) for spec in TOOLS]}).encode()


def show_result(used: ToolUse) -> bytes:
    """The answer to a call: text, and images in base64."""
    images = [
        {"media_type": image.media_type, "data": base64.b64encode(image.data).decode()}
        for image in used.result.images
    ]
    return json.dumps({"text": used.result.text, "images": images}).encode()

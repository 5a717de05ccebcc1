"""HTTP request handler with a total read deadline, so that a slow client cannot hold a connection
open."""

from __future__ import annotations

import io
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

SECONDS = 60.0  # for an idle connection, for a request, and for a response


class DeadlineHandler(BaseHTTPRequestHandler):
    """Waits ``seconds`` for a request, and as long from its first byte to the last of its body; a
    socket's own timeout restarts with each byte. It logs nothing."""

    seconds = SECONDS

    def setup(self) -> None:
        """Read through the deadline."""
        super().setup()
        self._bounded = _Bounded(self.connection)
        self.rfile = io.BufferedReader(self._bounded)

    def handle_one_request(self) -> None:
        """Handle a request within its deadline."""
        # The base class catches the timeout of a read and closes the connection.
        self._bounded.wait(self.seconds)
        super().handle_one_request()

    def end_headers(self) -> None:
        """Restart the timeout for the response."""
        self.connection.settimeout(self.seconds)
        super().end_headers()

    def read_body(self, length: int) -> bytes | None:
        """Read ``length`` bytes; None if the client hung up before."""
        body = self.rfile.read(length)
        return body if len(body) == length else None

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

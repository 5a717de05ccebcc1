"""A handler of HTTP requests whose patience has an end, however slowly a client goes on."""

from __future__ import annotations

import io
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

SECONDS = 60.0  # that a connection may say nothing, take for its request, or for what it is told


class DeadlineHandler(BaseHTTPRequestHandler):
    """Waits ``seconds`` for a request, and as long from its first byte to the last of its body: a
    socket's own time-out begins anew with each byte. It logs nothing."""

    seconds = SECONDS

    def setup(self) -> None:
        super().setup()
        self._bounded = _Bounded(self.connection)
        self.rfile = io.BufferedReader(self._bounded)

    def handle_one_request(self) -> None:
        # A time-out of a read is caught by the base class, which then closes the connection.
        self._bounded.wait(self.seconds)
        super().handle_one_request()

    def end_headers(self) -> None:
        self.connection.settimeout(self.seconds)  # what is left of a read's is not for writing
        super().end_headers()

    def read_body(self, length: int) -> bytes | None:
        """So many bytes; None where the client has hung up before."""
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: paths, addresses and what is asked may be private."""


class _Bounded(io.RawIOBase):
    """What a socket says within some seconds, and again so many from its first byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._seconds = self._ends = 0.0
        self._silent = True

    def wait(self, seconds: float) -> None:
        """Begin anew."""
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

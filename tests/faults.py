"""Faults of a store: a proxy in front of a server on this machine, which spoils what passes through
it, and a disk that becomes read-only. The proxy also suits a provider."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

_PIECE = 1 << 16


class Fault(StrEnum):
    """What the proxy does with connections."""

    NONE = "none"
    ERROR = "error"  # answers each request with a status of its own
    HANG = "hang"  # takes requests and never answers
    SLOW = "slow"  # passes each piece on after some seconds
    GONE = "gone"  # refuses connections
    CUT = "cut"  # passes requests on, and resets the connection after some bytes of the answers


@dataclass
class FaultProxy:
    """A running proxy at ``url``. ``begin`` and ``end`` change what it does at any moment;
    connections that are open then are reset, whatever they wait for."""

    host: str
    port: int  # of the server
    own: int = 0  # its own port
    fault: Fault = Fault.NONE
    status: int = 500
    seconds: float = 0.0
    count: int = 0  # bytes
    refused: int = 0  # requests and connections that met a fault

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._listen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.own}"

    def begin(
        self, fault: Fault, *, status: int = 500, seconds: float = 0.0, count: int = 0
    ) -> None:
        """Begin a fault. ``status`` is for ERROR, ``seconds`` before each piece for SLOW, and
        ``count``, the bytes of an answer before the cut, for CUT."""
        self.fault, self.status, self.seconds, self.count = fault, status, seconds, count
        if fault is Fault.GONE:
            self._unlisten()
        else:
            self._listen()
        self._reset()

    def end(self) -> None:
        """Pass everything on again."""
        self.begin(Fault.NONE)

    def close(self) -> None:
        self._unlisten()
        self._reset()

    def _listen(self) -> None:
        if self._listener is not None:
            return
        self._listener = socket.create_server(("127.0.0.1", self.own), backlog=256)
        self.own = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _unlisten(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # a blocked accept ends
            self._listener.close()
            self._listener = None

    def _reset(self) -> None:
        with self._lock:
            left, self._open = self._open, set()
        for connection in left:
            _reset(connection)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        fault = self.fault
        with suppress(OSError), client:
            if fault is Fault.ERROR:
                self._answer(client)
            elif fault is Fault.HANG:
                self.refused += 1
                while client.recv(_PIECE):
                    pass
            else:
                self._pass_on(client, fault)
        with self._lock:
            self._open.discard(client)

    def _answer(self, client: socket.socket) -> None:
        """Answer every request of a connection with the status."""
        while head := _read_head(client):
            fields = [line.partition(b":")[::2] for line in head.lower().split(b"\r\n")]
            length = next((int(v) for n, v in fields if n == b"content-length"), 0)
            waits = b"expect: 100-continue" in head.lower()
            while length > 0 and not waits:
                length -= len(client.recv(min(length, _PIECE)) or b" " * length)
            self.refused += 1
            body = b"<Error><Code>InternalError</Code><Message>fault</Message></Error>"
            line = f"HTTP/1.1 {self.status} Fault\r\nContent-Length: {len(body)}\r\n"
            client.sendall(line.encode() + b"Connection: close\r\n\r\n" + body)
            return

    def _pass_on(self, client: socket.socket, fault: Fault) -> None:
        with socket.create_connection((self.host, self.port)) as server:
            with self._lock:
                self._open.add(server)
            up = threading.Thread(target=self._copy, args=(client, server, fault), daemon=True)
            up.start()
            self._copy(server, client, fault, answers=True)
            up.join()
            with self._lock:
                self._open.discard(server)

    def _copy(
        self, source: socket.socket, target: socket.socket, fault: Fault, answers: bool = False
    ) -> None:
        left = self.count
        with suppress(OSError):
            while data := source.recv(_PIECE):
                if fault is Fault.SLOW:
                    time.sleep(self.seconds)
                if fault is Fault.CUT and answers:
                    if len(data) >= left:
                        self.refused += 1
                        target.sendall(data[:left])
                        _reset(target)
                        break
                    left -= len(data)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _read_head(client: socket.socket) -> bytes:
    """Read the head of a request; empty at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            return b""
        head += byte
    return head


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def fault_proxy(url: str) -> Iterator[FaultProxy]:
    """A proxy in front of the server at a URL, without a fault at first."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = FaultProxy(parts.hostname, parts.port)
    try:
        yield proxy
    finally:
        proxy.close()


def remount(disk: Path, option: str) -> None:
    """Make a disk read-only (ro) or writable (rw), or change its size (size=…)."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Fill a disk with one file, and return that."""
    large = disk / "large"
    with suppress(OSError), large.open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    return large


def outbox_files(folder: Path) -> list[Path]:
    """The files in the outbox of a folder for temporary files."""
    return sorted(folder.glob(".dosimeter-*.outbox/[!.]*"))

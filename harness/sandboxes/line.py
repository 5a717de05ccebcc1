"""The host's end of the line to a tool server. All that comes back is untrusted."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_FRAME = struct.Struct(">II")
_DOCKER = struct.Struct(">BxxxI")  # how the engine wraps what a container prints
_MAX_HEADER = 64 << 10
_GRACE = 15.0  # seconds beyond a request's own, for a busy machine


class LineBroken(Exception):  # noqa: N818
    """The server went (``gone``), fell silent (``silent``) or sent nonsense (``garbled``)."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Line:
    """One request at a time over a connected socket. ``wrapped``: replies come in the
    engine's own frames. ``grace``: seconds beyond a request's own until silence is given up."""

    def __init__(self, link: socket.socket, wrapped: bool, grace: float = _GRACE) -> None:
        self._link = link
        self._wrapped = wrapped
        self._grace = grace
        self._left = 0  # of the engine's frame under way

    def ask(
        self, header: Mapping[str, Any], body: bytes = b"", seconds: float = 0.0, cap: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request; return the answer's header and its body of at most ``cap`` bytes.
        Raises LineBroken."""
        deadline = time.monotonic() + seconds + self._grace
        text = json.dumps(header).encode()
        try:
            self._link.settimeout(max(0.01, deadline - time.monotonic()))
            self._link.sendall(_FRAME.pack(len(text), len(body)) + text + body)
            sizes = _FRAME.unpack(self._receive(_FRAME.size, deadline))
            if sizes[0] > _MAX_HEADER or sizes[1] > cap:
                raise LineBroken("garbled")
            answer = _read_header(self._receive(sizes[0], deadline))
            return answer, self._receive(sizes[1], deadline)
        except TimeoutError as error:
            raise LineBroken("silent") from error
        except OSError as error:
            raise LineBroken("gone") from error

    def close(self) -> None:
        """Hang up; the server goes when it notices."""
        with suppress(OSError):  # it may have gone already
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()

    def _receive(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            if self._wrapped and not self._left:
                self._left = self._read_wrapper(deadline)
                continue
            data = self._take(min(count, self._left) if self._wrapped else count, deadline)
            self._left -= len(data) if self._wrapped else 0
            parts.append(data)
            count -= len(data)
        return b"".join(parts)

    def _read_wrapper(self, deadline: float) -> int:
        head = b""
        while len(head) < _DOCKER.size:
            head += self._take(_DOCKER.size - len(head), deadline)
        stream, length = _DOCKER.unpack(head)
        if stream != 1:
            raise LineBroken("garbled")
        return int(length)

    def _take(self, count: int, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LineBroken("silent")
        self._link.settimeout(left)
        data = self._link.recv(min(count, 1 << 20))
        if not data:
            raise LineBroken("gone")
        return data


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LineBroken("garbled") from error
    if not isinstance(header, dict) or not isinstance(header.get("ok"), bool):
        raise LineBroken("garbled")
    return header

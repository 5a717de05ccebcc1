"""Client of the tool server: the same for the Docker sandbox and the local one."""

from __future__ import annotations

import json
import logging
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Protocol, Self

from generators.task import Asset, Limits
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes.base import KILLED, ExecResult, SandboxRefused

logger = logging.getLogger(__name__)

_FRAME = struct.Struct(">II")
_DOCKER = struct.Struct(">BxxxI")  # how the engine wraps what a container prints
_MAX_HEADER = 64 << 10
_GRACE = 15.0  # seconds beyond a request's own, for a busy machine


class ServerLost(Exception):  # noqa: N818
    """The server ended (``gone``), did not answer in time (``silent``) or sent invalid data
    (``garbled``)."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class ServerConnection:
    """One request at a time over a connected socket; all answers are untrusted. ``wrapped``: they
    come in the engine's own frames. ``grace``: seconds beyond a request's own to wait for one."""

    def __init__(self, link: socket.socket, wrapped: bool, grace: float = _GRACE) -> None:
        self._link = link
        self._wrapped = wrapped
        self._grace = grace
        self._left = 0  # of the engine's frame under way

    def ask(
        self, header: Mapping[str, Any], body: bytes = b"", seconds: float = 0.0, cap: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request; return the answer's header and its body of at most ``cap`` bytes.
        Raises ServerLost."""
        deadline = time.monotonic() + seconds + self._grace
        text = json.dumps(header).encode()
        try:
            self._link.settimeout(max(0.01, deadline - time.monotonic()))
            self._link.sendall(_FRAME.pack(len(text), len(body)) + text + body)
            sizes = _FRAME.unpack(self._receive(_FRAME.size, deadline))
            if sizes[0] > _MAX_HEADER or sizes[1] > cap:
                raise ServerLost("garbled")
            answer = _read_header(self._receive(sizes[0], deadline))
            return answer, self._receive(sizes[1], deadline)
        except TimeoutError as error:
            raise ServerLost("silent") from error
        except OSError as error:
            raise ServerLost("gone") from error

    def close(self) -> None:
        """Close the connection; the server exits when it notices."""
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
            raise ServerLost("garbled")
        return int(length)

    def _take(self, count: int, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ServerLost("silent")
        self._link.settimeout(left)
        data = self._link.recv(min(count, 1 << 20))
        if not data:
            raise ServerLost("gone")
        return data


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ServerLost("garbled") from error
    if not isinstance(header, dict) or not isinstance(header.get("ok"), bool):
        raise ServerLost("garbled")
    return header


LIMIT_NAMES = frozenset({"time", "memory", "processes", "disk", "output"})
FLOOD_BYTES = 64 << 20  # printed by a program before it is killed


class ExitCause(Protocol):
    """Finds the exit cause of a server that was lost."""

    def begin(self) -> None:
        """Record that a program starts."""
        ...

    def explain(self) -> tuple[str, ...] | None:
        """The limits that its programs hit; empty if they ended it in another way; None if the
        cause is not its programs."""
        ...


class UnknownCause:
    """The server's end is never caused by its programs."""

    def begin(self) -> None:
        """Nothing to record."""

    def explain(self) -> tuple[str, ...] | None:
        """None: not its programs."""
        return None


class ToolServerSandbox:
    """One server, one work folder, one episode.

    ``turns`` is entered while a program runs, which limits how many of the sandboxes that share it
    run programs at once. ``destroy`` is called once at the end, with True if the server does not
    answer any more. ``exit_cause`` is asked if the server was lost.
    """

    def __init__(
        self,
        name: str,
        connection: ServerConnection,
        limits: Limits,
        destroy: Callable[[bool], None],
        exit_cause: ExitCause | None = None,
        turns: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._name = name
        self._connection = connection
        self._limits = limits
        self._destroy = destroy
        self._exit_cause = exit_cause or UnknownCause()
        self._turns = nullcontext() if turns is None else turns
        self._closed = False
        self._spent: tuple[str, ...] | None = None  # limits hit by the programs that ended it

    @property
    def id(self) -> str:
        """Name of the container or folder, for the record."""
        return self._name

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> ExecResult:
        """Run a program in the work folder. Whatever it started is dead when this returns.

        A program that takes the whole sandbox down is answered as killed, now and at every later
        call: what an agent can cause is not a failure of the sandbox.
        """
        if self._spent is not None:
            return ExecResult(
                KILLED, b"the sandbox ended with the last program\n", 0, 0.0, self._spent
            )
        cap = self._limits.output_bytes
        request = {"op": "run", "argv": list(argv), "seconds": seconds}
        request |= {"cap": cap, "flood": FLOOD_BYTES}
        try:
            with self._turns:
                self._exit_cause.begin()
                header, body = self._connection.ask(request, stdin, seconds, cap)
            return _read_result(header, body)
        except ServerLost as broken:
            limits = self._lose(broken, by_program=True)
            output = b"the sandbox ended while this ran\n"
            return ExecResult(KILLED, output, 0, seconds, limits)

    def read(self, path: str, max_bytes: int) -> bytes:
        """A regular file's bytes. Raises SandboxRefused."""
        return self._file_operation({"op": "read", "path": path, "max": max_bytes}, b"", max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file; its folders are made. Raises SandboxRefused."""
        self._file_operation({"op": "write", "path": path}, data, 0)

    def kind(self, path: str) -> str | None:
        """``file``, ``folder``, or None for nothing and all else. Raises SandboxRefused."""
        return self._file_operation({"op": "kind", "path": path}, b"", 16).decode() or None

    def ping(self) -> None:
        """Raises AttemptFailed unless the server answers."""
        self._file_operation({"op": "ping"}, b"", 0)

    def close(self) -> None:
        """Destroy it and all that is in it. May return before that is done."""
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._destroy(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _file_operation(self, request: dict[str, Any], body: bytes, cap: int) -> bytes:
        if self._spent is not None:
            raise SandboxRefused("the sandbox ended with the last program", self._spent)
        try:
            header, data = self._connection.ask(request, body, cap=cap)
            if not header["ok"]:
                raise _refusal(header)
            return data
        except ServerLost as broken:
            limits = self._lose(broken, by_program=False)
            raise SandboxRefused("the sandbox ended", limits) from broken

    def _lose(self, broken: ServerLost, by_program: bool) -> tuple[str, ...]:
        """The server is lost: the limits hit, if its programs ended it; else AttemptFailed."""
        limits = None if self._closed else self._exit_cause.explain()
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._destroy(True)
        doing = "while a program ran" if by_program else "between programs"
        cause = "not its programs" if limits is None else ", ".join(limits) or "its programs"
        logger.warning("sandbox %.20s: server %s %s; cause: %s", self.id, broken.kind, doing, cause)
        if limits is None:
            raise AttemptFailed(Boundary.SANDBOX, f"server {broken.kind}", doing) from broken
        self._spent = limits
        return limits


def fill(sandbox: ToolServerSandbox, assets: Sequence[Asset]) -> None:
    """Write the input files. Raises HarnessError where they do not fit the limits."""
    for number, asset in enumerate(assets, 1):
        try:
            sandbox.write(asset.path, asset.data)
        except SandboxRefused as refused:
            raise HarnessError(
                f"input file {number} of {len(assets)} cannot be placed in the work folder: "
                f"{refused}; the task's limits must allow for its files"
            ) from refused


def _read_result(header: dict[str, Any], body: bytes) -> ExecResult:
    """Check the answer field by field: programs can only misreport themselves."""
    if not header["ok"]:
        return ExecResult(
            126, str(header.get("reason", ""))[:500].encode("utf-8", "replace"), 0, 0.0, ()
        )
    code, total, seconds = header.get("exit"), header.get("total"), header.get("seconds")
    if type(code) is not int or type(total) is not int or type(seconds) is not float:
        raise ServerLost("garbled")
    if not 0 <= code <= 255 or total < 0 or not 0 <= seconds < 1e9:
        raise ServerLost("garbled")
    return ExecResult(code, body, total, seconds, _read_limits(header))


def _refusal(header: dict[str, Any]) -> SandboxRefused:
    reason = header.get("reason")
    if not isinstance(reason, str):
        raise ServerLost("garbled")
    return SandboxRefused(_readable(reason), _read_limits(header))


def _readable(reason: str) -> str:
    """In short, and without what no encoding can write."""
    return reason[:500].encode("utf-8", "replace").decode()


def _read_limits(header: dict[str, Any]) -> tuple[str, ...]:
    limits = header.get("limits")
    if not isinstance(limits, list) or not all(isinstance(name, str) for name in limits):
        raise ServerLost("garbled")
    if not LIMIT_NAMES.issuperset(limits):
        raise ServerLost("garbled")
    return tuple(sorted(set(limits)))

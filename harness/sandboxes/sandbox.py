"""Sandboxes: the client of the tool server, the same for the Docker sandbox and the local one, and
the Protocol of a provider."""

from __future__ import annotations

import json
import logging
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from generators.task import Asset, Brief, Environment, Limits, Verifier
from harness.errors import AttemptFailed, Boundary, HarnessError

if TYPE_CHECKING:
    from harness.sandboxes.exit_cause import ContainerExitCause

logger = logging.getLogger(__name__)

KILLED = 137  # the exit code of what a SIGKILL ended


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of one program. ``limits`` names those it hit, of: ``time``, ``memory``,
    ``processes``, ``disk``, ``output``."""

    exit_code: int
    output: bytes  # stdout and stderr interleaved, cut to the cap (head and tail kept)
    output_bytes: int  # before the cut
    seconds: float
    limits: tuple[str, ...] = ()


class SandboxRefused(Exception):  # noqa: N818
    """The sandbox refused a file operation: outside the work folder, missing, too large, no
    space. An answer for the agent, not a failure. ``limits`` as in ExecResult."""

    def __init__(self, reason: str, limits: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.limits = limits


_FRAME = struct.Struct(">II")
_DOCKER = struct.Struct(">BxxxI")  # the engine's header of a container's output
_MAX_HEADER = 64 << 10
_GRACE = 60.0  # seconds beyond a request's own: programs may keep the machine busy


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

    def stop(self) -> None:
        """End the program that another thread's request runs; nothing if none does."""
        text = json.dumps({"op": "stop"}).encode()
        with suppress(OSError):  # it may have gone, which the other thread notices
            self._link.sendall(_FRAME.pack(len(text), 0) + text)

    def close(self) -> None:
        """Close the connection; the server exits when it notices."""
        with suppress(OSError):  # it may have gone already
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()

    def _receive(self, count: int, deadline: float) -> bytes:
        """Return exactly ``count`` bytes of the server's own."""
        if not self._wrapped:
            return self._take(count, deadline)
        parts: list[bytes] = []
        while count:
            if not self._left:
                stream, self._left = _DOCKER.unpack(self._take(_DOCKER.size, deadline))
                if stream != 1:
                    raise ServerLost("garbled")
            parts.append(self._take(min(count, self._left), deadline))
            self._left -= len(parts[-1])
            count -= len(parts[-1])
        return b"".join(parts)

    def _take(self, count: int, deadline: float) -> bytes:
        """Return exactly ``count`` bytes as they come."""
        parts: list[bytes] = []
        while count:
            if (left := deadline - time.monotonic()) <= 0:
                raise ServerLost("silent")
            self._link.settimeout(left)
            parts.append(self._link.recv(min(count, 1 << 20)))
            if not parts[-1]:
                raise ServerLost("gone")
            count -= len(parts[-1])
        return b"".join(parts)


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ServerLost("garbled") from error
    if not isinstance(header, dict) or not isinstance(header.get("ok"), bool):
        raise ServerLost("garbled")
    return header


SOCKET_FOLDER = "/model"  # in a sandbox with a socket
LIMIT_NAMES = frozenset({"time", "memory", "processes", "disk", "output"})
RESTARTED = "engine restarted"  # class of an attempt that lost its sandbox so
FLOOD_BYTES = 64 << 20  # printed by a program before it is killed


class Sandbox:
    """One tool server, one work folder, one episode. All paths are relative to the work folder and
    confined to it: absolute ones outside it, ``..`` and symbolic links that lead out are refused.
    Losing the sandbox itself raises AttemptFailed(SANDBOX, …).

    ``turn`` is entered while a program runs: it limits how many of the sandboxes that share it run
    programs at once, and gives the number of the core that the program has to itself, or None.
    ``destroy`` is called once at the end, with True if the server does not answer any more.
    ``exit_cause`` is asked if the server was lost. ``socket_folder`` is a folder of this host that
    the sandbox has as ``SOCKET_FOLDER``, if it was opened with one.
    """

    def __init__(
        self,
        id: str,
        connection: ServerConnection,
        limits: Limits,
        destroy: Callable[[bool], None],
        exit_cause: ContainerExitCause | None = None,
        turn: Callable[[], AbstractContextManager[int | None]] = nullcontext,
        socket_folder: Path | None = None,
    ) -> None:
        self.id = id  # name of the container or folder, for the record
        self.socket_folder = socket_folder
        self._connection = connection
        self._limits = limits
        self._destroy = destroy
        self._exit_cause = exit_cause
        self._turn = turn
        self._closed = False
        self._spent: tuple[str, ...] | None = None  # limits hit by the programs that ended it

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
        request: dict[str, Any] = {"op": "run", "argv": list(argv), "seconds": seconds}
        request |= {"cap": cap, "flood": FLOOD_BYTES}
        try:
            with self._turn() as core:
                if core is not None:
                    request["core"] = core
                if self._exit_cause is not None:
                    self._exit_cause.begin()
                header, body = self._connection.ask(request, stdin, seconds, cap)
            return _read_result(header, body)
        except ServerLost as broken:
            limits = self._lose(broken, by_program=True)
            output = b"the sandbox ended while this ran\n"
            return ExecResult(KILLED, output, 0, seconds, limits)

    def interrupt(self) -> None:
        """End the program that another thread runs, as its time limit would."""
        self._connection.stop()

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
        self._end(lost=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end(self, lost: bool) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._destroy(lost)

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
        cause = None if self._closed else self._exit_cause
        limits = None if cause is None else cause.explain()
        self._end(lost=True)
        doing = "while a program ran" if by_program else "between programs"
        named = "not its programs" if limits is None else ", ".join(limits) or "its programs"
        logger.warning("sandbox %.20s: server %s %s; cause: %s", self.id, broken.kind, doing, named)
        if limits is None:
            kind = RESTARTED if cause is not None and cause.restarted() else f"server {broken.kind}"
            raise AttemptFailed(Boundary.SANDBOX, kind, doing) from broken
        self._spent = limits
        return limits


def fill(sandbox: Sandbox, assets: Sequence[Asset]) -> Sandbox:
    """Return the sandbox with the input files in its work folder; if one fails, it is closed.
    Raises HarnessError if they do not fit the limits."""
    with ExitStack() as undo:
        undo.callback(sandbox.close)
        for number, asset in enumerate(assets, 1):
            try:
                sandbox.write(asset.path, asset.data)
            except SandboxRefused as refused:
                raise HarnessError(
                    f"input file {number} of {len(assets)} cannot be placed in the work folder: "
                    f"{refused}; the task's limits must allow for its files"
                ) from refused
        undo.pop_all()
    return sandbox


def _read_result(header: dict[str, Any], body: bytes) -> ExecResult:
    """Check the answer field by field: programs can only misreport themselves."""
    if not header["ok"]:
        return ExecResult(126, str(_refusal(header)).encode(), 0, 0.0)
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
    # In short, and without what no encoding can write.
    return SandboxRefused(reason[:500].encode("utf-8", "replace").decode(), _read_limits(header))


def _read_limits(header: dict[str, Any]) -> tuple[str, ...]:
    limits = header.get("limits")
    names = limits if isinstance(limits, list) else [None]
    if not all(isinstance(name, str) and name in LIMIT_NAMES for name in names):
        raise ServerLost("garbled")
    return tuple(sorted(set(names)))


_LISTING = """
import importlib.metadata, json, platform
found = {(each.name, each.version) for each in importlib.metadata.distributions()}
tools = {"pip", "setuptools", "wheel"}
named = sorted(each for each in found if each[0] not in tools)
print(json.dumps([("Python", platform.python_version()), *named]))
"""


def list_libraries(sandbox: Sandbox, image: str) -> tuple[tuple[str, str], ...]:
    """Return the libraries that the image's own Python lists. Raises HarnessError."""
    listing = sandbox.run(("python3", "-I", "-c", _LISTING), 120.0).output
    try:
        return tuple((_checked(name), _checked(version)) for name, version in json.loads(listing))
    except (ValueError, TypeError):
        raise HarnessError(
            f"the sandbox image {image} does not tell its Python libraries: `make image` builds "
            "one that does"
        ) from None


def _checked(text: str) -> str:
    if not re.fullmatch(r"[\w.+!-]{1,80}", text, re.ASCII):
        raise ValueError(text)
    return text


@runtime_checkable
class TaskSandboxes(Protocol):
    """Makes sandboxes in images of tasks."""

    def open_task(
        self, files: Sequence[Asset], limits: Limits, environment: Environment
    ) -> Sandbox:
        """A fresh sandbox in the image that the files make. Raises AttemptFailed, HarnessError."""

    def open_copy(self, sandbox: Sandbox, verifier: Verifier, limits: Limits) -> Sandbox:
        """A fresh sandbox over what an agent left in such a one. Raises AttemptFailed."""


def task_sandboxes(provider: object) -> TaskSandboxes:
    """Return the provider if it makes such sandboxes. Raises HarnessError."""
    if not isinstance(provider, TaskSandboxes):
        raise HarnessError("a task with an image of its own needs `sandbox: {kind: docker}`")
    return provider


class SandboxProvider(Protocol):
    """Makes sandboxes, never the same one twice."""

    @property
    def image(self) -> str:
        """Digest of the image, or "none"."""

    @property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Name and version of Python and of the libraries found there."""

    @property
    def isolates(self) -> bool:
        """True if untrusted code may run here."""

    @property
    def trouble(self) -> str:
        """Why no sandbox can be opened for now; "" if one can."""

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        """A fresh sandbox with the assets in its work folder, and with ``model_socket`` a folder
        for the socket of a model proxy. Raises AttemptFailed."""

    def close(self) -> None:
        """Stop the pool and remove every container of it."""


def open_for(brief: Brief, provider: SandboxProvider) -> Sandbox:
    """A fresh sandbox for a task: with its files, or in its image. Raises AttemptFailed,
    HarnessError."""
    if brief.environment is None:
        return provider.open(brief.assets, brief.limits)
    return task_sandboxes(provider).open_task(brief.assets, brief.limits, brief.environment)

"""The host's end of the line: nothing that a sandbox sends back is believed."""

from __future__ import annotations

import json
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from generators.task import Limits
from harness.errors import AttemptFailed, Boundary
from harness.sandboxes.sandbox import Sandbox, SandboxRefused, ServerConnection, ServerLost
from tests.cases import cases

GOOD = {"ok": True, "exit": 0, "total": 2, "seconds": 0.1, "limits": []}


def frame(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">II", len(text), len(body)) + text + body


def wrap(data: bytes, stream: int = 1) -> bytes:
    """As the engine wraps what a container prints."""
    return struct.pack(">BxxxI", stream, len(data)) + data


@dataclass
class Verdict:
    """A exit_cause who has found this."""

    limits: tuple[str, ...]

    def begin(self) -> None: ...

    def explain(self) -> tuple[str, ...]:
        return self.limits


def served(reply: bytes, wrapped: bool = False, exit_cause: Any = None) -> Sandbox:
    """A sandbox whose server says just this, and hangs up."""
    ours, theirs = socket.socketpair()

    def speak() -> None:
        theirs.recv(1 << 16)
        theirs.sendall(reply)
        theirs.close()

    threading.Thread(target=speak, daemon=True).start()
    return Sandbox("x", ServerConnection(ours, wrapped), Limits(), lambda lost: None, exit_cause)


def test_a_reply_may_come_in_any_pieces() -> None:
    data = frame(GOOD, b"hi")
    pieces = b"".join(wrap(data[at : at + 3]) + wrap(b"") for at in range(0, len(data), 3))
    assert served(pieces, wrapped=True).run(["x"], 1).output == b"hi"


@pytest.mark.parametrize(
    "reply",
    [
        frame(b"{"),
        frame(b"[" * 60_000),
        frame(b"\xff\xfe"),
        *map(frame, cases(__file__, "bodies")),
        *(frame({**GOOD, **wrong}) for wrong in cases(__file__, "wrong")),
        frame(GOOD, bytes(Limits().output_bytes + 1)),
        struct.pack(">II", 1 << 31, 0),
    ],
)
def test_nonsense_fails_the_attempt(reply: bytes) -> None:
    with pytest.raises(AttemptFailed, match="sandbox: server garbled") as failed:
        served(reply).run(["x"], 1)
    assert failed.value.boundary is Boundary.SANDBOX


def test_a_stream_that_was_not_asked_for_is_nonsense() -> None:
    with pytest.raises(AttemptFailed, match="garbled"):
        served(wrap(frame(GOOD), stream=2), wrapped=True).run(["x"], 1)


@pytest.mark.parametrize("reply", [b"", frame(GOOD)[:-3], b"\0\0"])
def test_a_server_that_goes_fails_the_attempt(reply: bytes) -> None:
    with pytest.raises(AttemptFailed, match="server gone"):
        served(reply).run(["x"], 1)


def test_silence_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with pytest.raises(ServerLost, match="silent"):
        ServerConnection(ours, wrapped=False, grace=0.1).ask({"op": "ping"})
    theirs.close()


def test_a_file_larger_than_asked_for_is_nonsense() -> None:
    with pytest.raises(AttemptFailed, match="garbled"):
        served(frame({"ok": True}, b"12345")).read("x", 4)


def test_a_refusal_is_an_answer() -> None:
    reply = frame({"ok": False, "reason": "no such file", "limits": []})
    with pytest.raises(SandboxRefused, match="no such file"):
        served(reply).read("x", 4)


def test_a_program_that_takes_the_sandbox_down_has_hit_its_limit() -> None:
    """Else an agent could have its attempt begun again whenever it liked."""
    box = served(b"", exit_cause=Verdict(("memory",)))
    result = box.run(["x"], 1)
    assert (result.exit_code, result.limits) == (137, ("memory",))
    assert box.run(["y"], 1).limits == ("memory",)
    with pytest.raises(SandboxRefused) as refused:
        box.read("answer.json", 10)
    assert refused.value.limits == ("memory",)
    box.close()


def test_a_program_that_ends_the_sandbox_in_another_way_has_ended_it_all_the_same() -> None:
    box = served(b"", exit_cause=Verdict(()))
    result = box.run(["x"], 1)
    assert (result.exit_code, result.limits) == (137, ())
    assert box.run(["y"], 1).exit_code == 137
    with pytest.raises(SandboxRefused, match="ended"):
        box.read("answer.json", 10)
    box.close()


def test_a_lost_server_is_destroyed_once() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ends: list[bool] = []
    box = Sandbox("x", ServerConnection(ours, wrapped=False), Limits(), ends.append)
    with pytest.raises(AttemptFailed):
        box.ping()
    box.close()
    assert ends == [True]

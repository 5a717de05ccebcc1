"""Commands that end by SIGKILL at a chosen change of a file or request: ``Killer``.

A program (``python -m tests.kills``) forks a process for each command. An audit hook counts the
changes there: files that are opened to be written, renamed, linked and removed, folders that are
made, and requests of ``http.client``. Just before the chosen one the process kills itself; or it
goes on, and the kernel ends it halfway through its next write of a file.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parent.parent
NEVER = 1 << 30
TORN_AFTER = 9  # bytes of a file
_PATHS = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.truncate"}
_SENDING = re.compile(rb"(PUT|POST|DELETE) ")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    killed: bool
    code: int  # exit code; 0 if it was killed
    changes: int  # counted; 0 if it was killed
    output: str  # stdout and stderr


class Killer:
    """The running program, for the time of a ``with``. Only changes below ``folder`` count, where
    temporary files go too."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        (folder / "tmp").mkdir(exist_ok=True)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            **{"TMPDIR": str(folder / "tmp"), "HF_HOME": str(folder / "tmp" / "hf")},
            **{"PYTHONDONTWRITEBYTECODE": "1"},
            **(environment or {}),
        }

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills", str(self.folder)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def start(self, *command: str, at: int = NEVER, torn: bool = False) -> int:
        """Begin a command, and return the id of its process."""
        self._ask({"command": command, "at": at, "torn": torn})
        return int(self._answer())

    def wait(self) -> Ended:
        """Wait for the command that was begun."""
        return Ended(**self._answer())

    def run(self, *command: str, at: int = NEVER, torn: bool = False) -> Ended:
        """Run a command that ends itself at the change number ``at``, counted from 0, or, if
        ``torn``, halfway through the first write of a file from then on."""
        self.start(*command, at=at, torn=torn)
        return self.wait()

    def _ask(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


# -- the program ----------------------------------------------------------------------------------


def _is_change(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    if event == "http.client.send":
        return _SENDING.match(bytes(arguments[1][:8])) is not None
    if event == "open":
        flags = arguments[2]
        changes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
        return changes and str(arguments[0]).startswith(folder)
    return event in _PATHS and (
        not os.path.isabs(path := os.fsdecode(arguments[0])) or path.startswith(folder)
    )


class _Hook:
    """Counts changes, and ends this process at one of them."""

    def __init__(self, at: int, torn: bool, folder: str) -> None:
        self.at, self.torn, self.folder, self.changes = at, torn, folder, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.changes > self.at or not _is_change(event, arguments, self.folder):
            return
        if self.changes == self.at and not self.torn:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.changes == self.at:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (TORN_AFTER, TORN_AFTER))
        self.changes += 1


def _run(request: Mapping[str, Any], folder: str, output: IO[bytes], told: int) -> None:
    """Run the command in this process, which ends with it."""
    from study.main import main

    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    hook = _Hook(request["at"], request["torn"], folder)
    sys.addaudithook(hook)
    code: int | str | None = 0
    try:
        main(args=request["command"], prog_name="dosimeter")
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(told, json.dumps([hook.changes, sorted(sys.modules)]).encode())
    os._exit(code if isinstance(code, int) else 1)


def _serve(request: Mapping[str, Any], folder: str) -> dict[str, Any]:
    with tempfile.TemporaryFile(dir="/dev/shm") as output:
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            _run(request, folder, output, sink)
        os.close(sink)
        print(child, flush=True)
        with os.fdopen(source, "rb") as pipe:
            changes, modules = json.loads(pipe.read() or b"[0, []]")
        _, status = os.waitpid(child, 0)
        _import(modules)
        output.seek(0)
        shown = output.read().decode(errors="replace")
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXFSZ)
    assert killed or os.WIFEXITED(status), f"{status}: {shown}"
    code = 0 if killed else os.waitstatus_to_exitcode(status)
    return {"killed": killed, "code": code, "changes": changes, "output": shown}


def _import(modules: Sequence[str]) -> None:
    """Import what a command has imported, so that the next one need not."""
    for name in modules:
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _main(folder: str) -> None:
    for line in sys.stdin:
        print(json.dumps(_serve(json.loads(line), folder)), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])

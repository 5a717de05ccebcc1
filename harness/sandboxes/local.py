"""The local sandbox: the tool server as a process of this user's, in a folder of its own.

It confines files as the container does, limits time and output, and what the kernel limits for
one process (its memory, the size of a file), but isolates nothing: for the built-in, trusted
agents only.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from generators.task import Asset, Limits
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes import tool_server as server
from harness.sandboxes.image import locked_libraries
from harness.sandboxes.sandbox import Sandbox, ServerConnection, fill

_PREFIX = "dosimeter-"
_LAST_WORDS = 30.0  # seconds for a server to end by itself


class LocalSandboxes:
    """A SandboxProvider without an engine. Programs see a bare environment in which
    ``python3`` is the interpreter that runs this."""

    image = "none"
    isolates = False
    trouble = ""

    @cached_property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Of the sandbox image's libraries, those that this Python has, as they are here."""
        installed = [
            (name, version) for name, _ in locked_libraries() if (version := _version(name))
        ]
        return (("Python", platform.python_version()), *installed)

    def __init__(self) -> None:
        self._source = Path(server.__file__).read_text()
        self._lock = threading.Lock()
        self._live: dict[str, Sandbox] = {}
        sweep_folders()

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        """A fresh folder and server with the assets in it. Raises AttemptFailed; HarnessError for
        an agent that would run here."""
        if model_socket:
            raise HarnessError("an agent inside the sandbox needs one that isolates it: use Docker")
        try:
            work = tempfile.mkdtemp(prefix=f"{_PREFIX}{_pid_namespace()}-{os.getpid()}-")
        except OSError as error:
            raise AttemptFailed(Boundary.SANDBOX, "not created", str(error.strerror)) from error
        return fill(self._serve(work, limits), assets)

    def open_in(self, folder: Path, limits: Limits) -> Sandbox:
        """A sandbox in a folder that is somebody else's, and stays. Raises AttemptFailed."""
        return self._serve(str(folder), limits, keep=True)

    def close(self) -> None:
        """End every server and remove its folder."""
        with self._lock:
            left = list(self._live.values())
        for sandbox in left:
            sandbox.close()

    def _serve(self, work: str, limits: Limits, keep: bool = False) -> Sandbox:
        """A server in the folder, which is removed with it unless it is to be kept."""
        name = f"local-{Path(work).name}"
        host_end, server_end = socket.socketpair()
        try:
            process = self._start(work, server_end, limits, keep)
        except OSError as error:
            host_end.close()
            if not keep:
                _remove_tree(work)
            raise AttemptFailed(Boundary.SANDBOX, "not created", str(error.strerror)) from error
        finally:
            server_end.close()
        connection = ServerConnection(host_end, wrapped=False)
        sandbox = Sandbox(
            name, connection, limits, lambda lost: self._end(name, process, work, keep)
        )
        with self._lock:
            self._live[name] = sandbox
        return sandbox

    def _start(
        self, work: str, link: socket.socket, limits: Limits, keep: bool
    ) -> subprocess.Popen[bytes]:
        """A session of its own, so that an interrupt from the keyboard does not reach it."""
        options = {"data": limits.memory_bytes, "file": limits.disk_bytes, "keep": keep}
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", self._source, work, json.dumps(options)],
            stdin=link.fileno(),
            stdout=link.fileno(),
            stderr=subprocess.DEVNULL,
            cwd=work,
            env=_bare_environment(work),
            umask=0o077,
            start_new_session=True,
        )

    def _end(self, name: str, process: subprocess.Popen[bytes], work: str, keep: bool) -> None:
        with self._lock:
            self._live.pop(name, None)
        try:
            process.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if not keep:
            _remove_tree(work)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def folder_of(sandbox: Sandbox) -> Path:
    """The folder of a sandbox that LocalSandboxes opened."""
    return Path(tempfile.gettempdir(), sandbox.id.removeprefix("local-"))


def _remove_tree(folder: str) -> None:
    """Without a complaint, and however deep it goes: Python's own way takes a frame a level."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def sweep_folders() -> None:
    """Remove the folders of owners that are gone, where the server was killed with its owner."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{_pid_namespace()}-*"):
        pid = folder.name.split("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists() and not folder.is_symlink():
            _remove_tree(str(folder))


def _pid_namespace() -> int:
    """Processes of another one may share the temp folder, but not the numbering."""
    return os.stat("/proc/self/ns/pid").st_ino


def _bare_environment(work: str) -> dict[str, str]:
    """Return an environment without the keys and settings of this process."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": work,
        "TMPDIR": work,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": work,
    }

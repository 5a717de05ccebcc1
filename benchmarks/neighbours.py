"""Rate of an honest program while a bomb runs in a sandbox beside it, for each kind of bomb.

Each window with a bomb is compared with the window without one just before it, so that other load
on the machine enters both. As a control, the same beside a loop without a sandbox on another core:
what the cores of this machine take from each other. Used by ``benchmarks/sandboxes.py``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from generators.task import Limits
from harness.sandboxes.docker import DockerSandboxes
from harness.sandboxes.sandbox import Sandbox

WINDOW, PAIRS = 1.5, 5  # seconds of each measurement; pairs of them
BOMBS = {
    "fork": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "spin": "import os\nfor _ in range(5): os.fork()\nwhile True: pass",
    "memory": "held = []\nwhile True: held.append(bytearray(1 << 20))",
    "disk": "while True:\n  try: open('big', 'wb').write(bytes(1 << 26))\n  except OSError: pass",
    "output": "import os\nwhile True: os.write(1, bytes(1 << 16))",
    "inotify": ("import ctypes\nlibc = ctypes.CDLL(None)\nwhile True: libc.inotify_init1(0)"),
    "pipe": (
        "import fcntl, os\nwhile True:\n  try: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)\n"
        "  except OSError: pass"
    ),
    "socket": (
        "import socket\nheld = []\nwhile True:\n  try:\n    held.append(socket.socketpair())\n"
        "    held[-1][0].setblocking(False)\n    held[-1][0].send(bytes(1 << 17))\n"
        "  except OSError: pass"
    ),
}
# What an honest program does: arithmetic, memory, a file, a pipe of the usual size, a watched file.
WORK = f"""
import ctypes, fcntl, hashlib, os, time
libc = ctypes.CDLL(None)
done, end = 0, time.monotonic() + {WINDOW}
while time.monotonic() < end:
    hashlib.sha256(bytes(1 << 18)).digest()
    open('file', 'wb').write(bytes(1 << 16))
    pipe = os.pipe()
    assert fcntl.fcntl(pipe[0], fcntl.F_GETPIPE_SZ) == 1 << 16, 'a pipe of less'
    watch = libc.inotify_init1(0)
    assert watch >= 0, 'no watch'
    for fd in (*pipe, watch):
        os.close(fd)
    done += 1
print(done)
"""


def measure_neighbours(tag: str) -> dict[str, float]:
    """Median over the pairs of (rate beside the bomb / rate alone), by bomb. Raises ValueError if
    the honest program fails."""
    provider = DockerSandboxes(tag, warm=1)
    with provider.open((), Limits()) as honest:
        ratios = {
            name: _ratio(honest, partial(_exploding, provider, bomb))
            for name, bomb in BOMBS.items()
        }
        ratios["control: a loop on another core"] = _ratio(honest, _looping)
    provider.close()
    return ratios


def _ratio(honest: Sandbox, beside: Callable[[], AbstractContextManager[None]]) -> float:
    ratios = []
    for _ in range(PAIRS):
        alone = _work(honest)
        with beside():
            ratios.append(_work(honest) / alone)
    return round(statistics.median(ratios), 3)


@contextmanager
def _looping() -> Iterator[None]:
    """Run a loop on the last core of this machine; programs of sandboxes take the first."""
    last = max(os.sched_getaffinity(0))
    loop = f"import os\nos.sched_setaffinity(0, {{{last}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", loop]) as looping:
        yield
        looping.kill()


def _work(honest: Sandbox) -> int:
    done = honest.run(("python3", "-c", WORK), 60.0)
    if done.exit_code:
        raise ValueError(done.output.decode())
    return int(done.output)


@contextmanager
def _exploding(provider: DockerSandboxes, bomb: str) -> Iterator[None]:
    """Run the bomb again and again in a sandbox of its own, until the block ends."""
    stop, started = threading.Event(), threading.Event()
    with provider.open((), Limits()) as hostile:

        def explode() -> None:
            while not stop.is_set():
                started.set()
                hostile.run(("python3", "-c", bomb), 2 * WINDOW)

        thread = threading.Thread(target=explode)
        thread.start()
        started.wait()
        yield
        stop.set()
        thread.join()

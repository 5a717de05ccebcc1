"""Hosts that share nothing but a network and the disk: namespaces of this machine, each with a
network, processes, name and temporary folder of its own, on a bridge in a namespace between them.
They need root. A host is lost by killing its first process, as the kernel then ends all others."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.cases import cases
from tests.progress import wait_until

BETWEEN = "10.77.0.254"  # of the bridge: where services that all hosts use listen
RAY_PORT = 6379
_HEAD = ("--head", f"--port={RAY_PORT}", "--include-dashboard=false")
_HEALTH = (
    '--system-config={"health_check_initial_delay_ms":1000,"health_check_period_ms":1000,'
    '"health_check_timeout_ms":1000,"health_check_failure_threshold":3}'
)
_CLONE_NEWNET = 0x40000000
# Kept by a pipe: a test that is killed leaves no host. The shell stays, since the first process of
# a host must reap the orphans there.
_HOST = cases(__file__, "host")


@dataclass
class Host:
    """A host; ``first`` is its first process, as seen from outside."""

    name: str
    address: str
    folder: Path  # with ``tmp``, ``ray`` and ``log``
    holder: subprocess.Popen[bytes]
    first: int
    environment: dict[str, str] = field(default_factory=dict)

    def start(
        self, *command: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command there, with pipes for its output."""
        return subprocess.Popen(
            [*self._enter, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment, **(variables or {})},
        )

    def join(self, head: Host | None, *, cpus: int = 1, resources: str) -> None:
        """Start Ray there: a new cluster's, or as a node of the cluster of ``head``."""
        place = [f"--address={head.address}:{RAY_PORT}"] if head else [*_HEAD, _HEALTH]
        with (self.folder / "log").open("ab") as log:
            subprocess.run(
                [
                    *self._enter,
                    *(str(Path(sys.executable).parent / "ray"), "start", *place),
                    *(f"--num-cpus={cpus}", f"--resources={resources}"),
                    *(f"--node-ip-address={self.address}", "--disable-usage-stats"),
                    "--object-store-memory=100000000",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                env={**os.environ, **self.environment},
            )

    def freeze(self) -> None:
        """Stop all its processes but the first, as a host that is suspended."""
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on, and the commands that entered it, which stop with their children."""
        for pid in self._processes():
            with suppress(OSError):  # it has ended
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(pid, signal.SIGCONT)
                os.kill(parent, signal.SIGCONT)

    def _processes(self) -> list[int]:
        there = os.readlink(f"/proc/{self.first}/ns/pid")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(folder / "ns" / "pid") == there:
                    found.append(int(folder.name))
        return [pid for pid in found if pid != self.first]

    def lose(self) -> None:
        """End it with all its processes at once."""
        with suppress(FileNotFoundError):  # lost before
            self.thaw()  # what entered it reaps no child while it is stopped
        with self.holder:  # its pipes are closed, too
            self.holder.kill()
            with suppress(ProcessLookupError):
                os.kill(self.first, 9)
        wait_until(lambda: not Path(f"/proc/{self.first}").exists())

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.first), "-n", "-m", "-p", "-u", "--"]


@dataclass
class Network:
    """The hosts, and what lies between them."""

    between: int  # a process in the namespace of the bridge
    hosts: dict[str, Host]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Open what is opened meanwhile by this thread between the hosts."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.between}/ns/net") as other:
            assert libc.setns(other.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(own.fileno(), _CLONE_NEWNET) == 0

    def cut(self, name: str, *, from_host: str = "") -> None:
        """Cut a host off from all others, or from one of them only."""
        if from_host:
            there = f"{self.hosts[from_host].address}/32"
            _ip("route", "add", "blackhole", there, inside=self.hosts[name].first)
        else:
            _ip("link", "set", f"p-{name}", "down", inside=self.between)

    def heal(self, name: str, *, from_host: str = "") -> None:
        """Mend what was cut."""
        if from_host:
            there = f"{self.hosts[from_host].address}/32"
            _ip("route", "del", "blackhole", there, inside=self.hosts[name].first)
        else:
            _ip("link", "set", f"p-{name}", "up", inside=self.between)


@contextmanager
def network(folder: Path, *names: str) -> Iterator[Network]:
    """Hosts of these names, with addresses from 10.77.0.1 on. All is gone at the end."""
    bridge = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", "echo up; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    made = Network(bridge.pid, {})
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        _await_up(bridge)
        _ip("link", "set", "lo", "up", inside=bridge.pid)
        _ip("link", "add", "br0", "type", "bridge", inside=bridge.pid)
        _ip("addr", "add", f"{BETWEEN}/24", "dev", "br0", inside=bridge.pid)
        _ip("link", "set", "br0", "up", inside=bridge.pid)
        for number, name in enumerate(names, 1):
            host = _host(folder / name, name, f"10.77.0.{number}", token)
            made.hosts[name] = host
            peer = ("peer", "name", "eth0", "netns", str(host.first))
            _ip("link", "add", f"p-{name}", "type", "veth", *peer, inside=bridge.pid)
            _ip("link", "set", f"p-{name}", "master", "br0", "up", inside=bridge.pid)
            _ip("addr", "add", f"{host.address}/24", "dev", "eth0", inside=host.first)
            _ip("link", "set", "eth0", "up", inside=host.first)
            _ip("route", "add", "default", "via", BETWEEN, inside=host.first)
        yield made
    finally:
        for host in made.hosts.values():
            host.lose()
        with bridge:  # its pipes are closed, too
            bridge.kill()


def why_not() -> str:
    """Return why there can be no such hosts here; "" if they can be."""
    if missing := [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]:
        return f"no {', '.join(missing)} here"
    tried = subprocess.run(
        ["unshare", "-n", "-m", "-p", "-u", "-f", "ip", "link", "add", "br0", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tried.stderr.strip() if tried.returncode else ""


def _host(folder: Path, name: str, address: str, environment: dict[str, str]) -> Host:
    for each in ("tmp", "ray"):
        (folder / each).mkdir(parents=True)
    own = ["unshare", "-n", "-m", "-p", "-u", "-f", "--mount-proc", "--kill-child"]
    holder = subprocess.Popen(
        [*own, "bash", "-c", _HOST, "_", name, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _await_up(holder)
    (first,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    variables = {**environment, "TMPDIR": str(folder / "tmp"), "RAY_TMPDIR": "/tmp"}
    return Host(name, address, folder, holder, int(first), variables)


def _await_up(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"


def _ip(*words: str, inside: int) -> None:
    subprocess.run(["nsenter", "-t", str(inside), "-n", "--", "ip", *words], check=True)

"""The sandbox's root folder from Debian packages and wheels, where no registry answers.

Runs as root on Debian or Ubuntu. The result is a folder to import as an image; nothing of the
host but its package sources goes into it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from harness.errors import HarnessError

PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "grep", "gzip"),
    *("libc-bin", "libstdc++6", "mawk", "python3", "sed", "tar"),
)
PROOF = "import numpy, scipy.stats, pandas, PIL.Image, matplotlib.pyplot"
TOOLS = ("apt-get", "dpkg-deb", "tar", "chroot")
_MERGED = ("bin", "sbin", "lib", "lib64")
_FOLDERS = (
    *(f"usr/{name}" for name in _MERGED),
    *("etc", "proc", "sys", "dev/shm", "run", "root", "home", "tmp", "var/tmp", "work"),
)
_LEFT_OUT = ("doc", "info", "locale", "man")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/work:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files\n",
}
_GLIBC = ("2_28", "2_27", "2_26", "2_24", "2_17")


def missing_for_debian() -> str:
    """Why the image cannot be made this way here, as an instruction; "" if it can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool, path=_path()) is None]
    if lacking:
        return f"use Debian or Ubuntu, or a machine that reaches a registry (no {lacking[0]} here)"
    if os.geteuid() != 0:
        return "run `make image` as root once (it unpacks Debian packages as their owners)"
    return ""


def make_root(work: Path, lock: Path, say: Callable[[str], None]) -> Path:
    """Build the root folder under ``work`` and return it. Raises HarnessError."""
    root = work / "root"
    _lay_out(root)
    say("sandbox image: downloading Debian packages")
    packages = _download(work)
    say(f"sandbox image: unpacking {len(packages)} packages")
    for package in packages:
        _unpack(package, root)
    _finish(root)
    say("sandbox image: installing the locked libraries")
    version = _python_version(root)
    install_wheels(lock, root / f"usr/local/lib/python{version}/dist-packages", version)
    say("sandbox image: compiling")
    _compile(root, version)
    _run(["chroot", str(root), "python3", "-c", PROOF], "load the sandbox's libraries")
    return root


def _lay_out(root: Path) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _MERGED:
        (root / name).symlink_to(f"usr/{name}")
    for name in ("tmp", "var/tmp", "dev/shm"):
        (root / name).chmod(0o1777)


def _download(work: Path) -> list[Path]:
    """The packages and all that they depend on, as if for an empty machine."""
    archives = work / "archives"
    (archives / "partial").mkdir(parents=True)
    status = work / "status"
    status.touch()
    command = ["apt-get", "install", "-y", "-q", "--download-only", "--no-install-recommends"]
    for option in (
        f"Dir::State::status={status}",
        f"Dir::Cache::archives={archives}",
        "APT::Sandbox::User=root",
        "Debug::NoLocking=1",
    ):
        command += ["-o", option]
    if not _works([*command, *PACKAGES]):
        _run(["apt-get", "update", "-q"], "refresh the list of Debian packages")
        _run([*command, *PACKAGES], "download Debian packages")
    return sorted(archives.glob("*.deb"))


def _unpack(package: Path, root: Path) -> None:
    excludes = [f"--exclude=./usr/share/{name}/*" for name in _LEFT_OUT]
    command = ["tar", "-C", str(root), "-xf", "-", "--keep-directory-symlink", *excludes]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as deb:
        _run(command, f"unpack {package.name}", stdin=deb.stdout)
    if deb.returncode:
        raise HarnessError(f"cannot unpack {package.name}: dpkg-deb ended with {deb.returncode}")


def _finish(root: Path) -> None:
    """What the packages' own scripts would have done, as far as it is needed."""
    for name, target in (("sh", "dash"), ("awk", "mawk")):
        if not (root / "usr/bin" / name).exists():
            (root / "usr/bin" / name).symlink_to(target)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o6000:
            path.chmod(path.stat().st_mode & 0o1777)
    _run(["chroot", str(root), "/sbin/ldconfig"], "set up the sandbox's libraries")


def _python_version(root: Path) -> str:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    return _run(["chroot", str(root), "python3", "-I", "-c", ask], "run its python3").strip()


def install_wheels(lock: Path, target: Path, version: str) -> None:
    """Wheels for the sandbox's Python, whichever runs this. An environment of pipx or uv without
    pip gets it."""
    if find_spec("pip") is None:
        _run([sys.executable, "-m", "ensurepip"], "install pip")
    machine = platform.machine()
    tags = [f"manylinux_{glibc}_{machine}" for glibc in _GLIBC] + [f"manylinux2014_{machine}"]
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--quiet", "--no-compile"]
    command += ["--disable-pip-version-check", "--root-user-action=ignore", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--implementation=cp"]
    command += [f"--python-version={version}", *(f"--platform={tag}" for tag in tags)]
    _run([*command, "--target", str(target), "-r", str(lock)], "install the sandbox's libraries")
    for tests in [path for path in target.rglob("tests") if path.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)


def _compile(root: Path, version: str) -> None:
    """Compile all modules: under a read-only root nothing could be kept later."""
    command = ["chroot", str(root), "python3", "-m", "compileall", "-q", "-j", "0"]
    command += ["--invalidation-mode", "unchecked-hash", f"/usr/lib/python{version}"]
    _run([*command, f"/usr/local/lib/python{version}"], "compile the sandbox's libraries")


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _path(), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, env=_environment()).returncode == 0


def _run(command: Sequence[str], purpose: str, stdin: object = None) -> str:
    """Its output. Raises HarnessError with the last line that it complained in."""
    done = subprocess.run(
        command,
        stdin=stdin or subprocess.DEVNULL,  # type: ignore[call-overload]  # a pipe or nothing
        capture_output=True,
        env=_environment(),
        text=True,
        errors="replace",
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise HarnessError(f"cannot {purpose}: {command[0]} said: {lines[-1]}")
    return str(done.stdout)

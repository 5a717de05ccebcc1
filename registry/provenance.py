"""Provenance: when, and with which code and environment, a promise was made; whether it is kept;
and that the code that runs is this code, since other packages may take our plain names."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from registry.canonical import digest_bytes
from registry.errors import BrokenPromise, RegistryError

if TYPE_CHECKING:
    from registry.ledger.records import Provenance

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("study", "harness", "publish", "analysis", "generators", "registry", "dosimeter")
STAMP = ".commit"  # of a tree without a repository: `git archive` writes the commit into it
_SOURCES = frozenset((".py", ".txt", ".yml", ".yaml", ".j2"))  # code, prompts, templates
_PINNED_PACKAGES = (
    "docker",
    "numpy",
    "pillow",
    "pydantic-ai-slim",
    "pyrage",
    "ray",
    "scipy",
    "statsmodels",
)


def read_provenance(root: Path, image: str) -> Provenance:
    """Return the provenance of the checkout at ``root``, or of the packages that a wheel installed
    there; ``image`` is the sandbox image's digest.

    Untracked files make a tree dirty; ignored ones and the folders of studies do not. Where git is
    missing or ``root`` is not the top of a repository, the commit is that of ``stamp_tree``, and
    the tree is clean if code and lock are those that were stamped. Without a stamp the commit is
    ``dosimeter-VERSION@sha256:…``, the digest of the wheel's files by its RECORD, and the tree is
    clean if the files are those of the wheel. Without a wheel the commit is "unknown" and the tree
    dirty.
    """
    import platform

    from registry.ledger.records import (
        Provenance,  # pydantic, which `dosimeter --help` does without
    )

    commit, dirty = _read_tree(root)
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock=_lock_digest(root / "requirements.lock"),
        image=image,
        python=platform.python_version(),
        packages=installed_packages(),
    )


def stamp_tree(root: Path) -> str:
    """Add the digests of code and lock to the commit that `git archive` wrote into a tree, for an
    image without a repository; return the commit. Raises RegistryError if no commit is there."""
    path = root / STAMP
    commit, _ = _read_stamp(root)
    if commit == "unknown":
        raise RegistryError(f"{path} holds no commit: make the tree with `git archive`")
    path.write_text("\n".join((commit, *_tree_digests(root), "")), encoding="ascii")
    return commit


def installed_packages() -> tuple[tuple[str, str], ...]:
    """Return name and version of the libraries here that shape results."""
    from importlib import metadata

    versions = []
    for name in _PINNED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions.append((name, metadata.version(name)))
    return tuple(versions)


def find_other_packages(packages: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return in words each package that is installed here in another version than in these."""
    expected = dict(packages)
    return tuple(
        f"{name} {version} instead of {expected[name]}"
        for name, version in installed_packages()
        if version != expected.get(name, version)
    )


def check_tree(now: Provenance, allow_dirty: bool) -> None:
    """Raise BrokenPromise for code that no commit names, unless it is allowed."""
    if now.dirty and not allow_dirty:
        raise BrokenPromise(
            "dirty tree: files differ from the commit or the wheel, or there is neither. Commit or "
            "stash the changes, install the wheel again, or run with --allow-dirty, which the "
            "ledger records and the report shows"
        )


def find_changes(now: Provenance, registered: Provenance) -> tuple[str, ...]:
    """Return what differs from the code and environment of the registration, in words."""
    pairs = [
        (f"other {name}", getattr(registered, name), getattr(now, name))
        for name in ("commit", "lock", "image", "python")
    ]
    was, is_now = dict(registered.packages), dict(now.packages)
    pairs += [
        (f"other {name}", was.get(name, "none"), is_now.get(name, "none"))
        for name in sorted(was | is_now)
    ]
    return tuple(f"{words}: {now}, registered {then}" for words, then, now in pairs if now != then)


def verify_packages(names: tuple[str, ...] = PACKAGES) -> None:
    """Raises RegistryError if one of the packages would be, or was, imported from elsewhere than
    beside this one. Imports nothing."""
    for name in names:
        if (path := package_folder(name)) != ROOT / name:
            raise RegistryError(
                f"the package {name!r} is taken from {path or 'nowhere'}, not from {ROOT / name}: "
                "a folder or package of that name comes first on Python's path; rename or remove "
                "it, or install dosimeter into an environment of its own (docs/install.md)"
            )


def package_folder(name: str) -> Path | None:
    """Return the folder that Python takes a package from; None without an ``__init__.py``."""
    try:
        spec = find_spec(name)
    except ValueError:  # imported in a way that leaves no trace of where from
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent


def lock_of_commit(root: Path, commit: str) -> str | None:
    """Return the digest of requirements.lock in a commit; None if the repository at ``root`` does
    not have that."""
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
        return None
    lock = _git(root, "show", f"{commit}:requirements.lock")
    return None if lock is None else digest_bytes(lock)


def code_digest(root: Path = ROOT) -> str:
    """One digest over the source of all our packages, prompts and templates included, to compare
    whether two machines run the same code."""
    hasher = hashlib.sha256()
    for name in PACKAGES:
        files = sorted(path for path in (root / name).rglob("*") if path.suffix in _SOURCES)
        for path in files:
            data = path.read_bytes()
            place = path.relative_to(root).as_posix()
            hasher.update(f"{place}\0{len(data)}\0".encode() + data)
    return f"sha256:{hasher.hexdigest()}"


def utc_now() -> str:
    """The time, UTC, ISO 8601 to the second, with ``Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_tree(root: Path) -> tuple[str, bool]:
    """The full commit and whether the tree is dirty; a tree above ``root`` does not count."""
    top = _git_line(root, "rev-parse", "--show-toplevel")
    if top is None or os.path.realpath(top) != os.path.realpath(root):
        return _read_stamp(root)
    commit = _git_line(root, "rev-parse", "--verify", "HEAD")
    status = _git_line(root, "status", "--porcelain", "-z", "--untracked-files=normal")
    if commit is None or status is None:
        return commit or "unknown", True
    changes = filter(None, status.split("\0"))
    return commit, not all(_is_study_folder(root, change) for change in changes)


def _read_stamp(root: Path) -> tuple[str, bool]:
    """The commit in a tree's stamp, and whether code or lock are others than were stamped."""
    try:
        commit, *digests = (root / STAMP).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return _read_wheel(root)
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
        return "unknown", True  # a checkout's, which `git archive` has not written into
    return commit, digests != _tree_digests(root)


def _read_wheel(root: Path) -> tuple[str, bool]:
    """Name, version and digest of the wheel that was installed at ``root``, and whether the files
    are others than its. The digest is that of the lines of RECORD of our packages, sorted."""
    from importlib import metadata

    for wheel in metadata.distributions(name="dosimeter", path=[str(root)]):
        record = (wheel.read_text("RECORD") or "").splitlines()
        lines = sorted(line for line in record if _is_own_file(line.rpartition(",sha256=")[0]))
        places = (path for name in PACKAGES for path in (root / name).rglob("*") if path.is_file())
        own = (path for path in places if _is_own_file(path.relative_to(root).as_posix()))
        text = "".join(f"{line}\n" for line in lines)
        commit = f"dosimeter-{wheel.version}@{digest_bytes(text.encode())}"
        return commit, lines != sorted(_record_line(root, path) for path in own)
    return "unknown", True


def _is_own_file(place: str) -> bool:
    return place.partition("/")[0] in PACKAGES and not place.endswith(".pyc")


def _record_line(root: Path, path: Path) -> str:
    data = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{path.relative_to(root).as_posix()},sha256={digest},{len(data)}"


def _tree_digests(root: Path) -> list[str]:
    return [code_digest(root), _lock_digest(root / "requirements.lock")]


def _is_study_folder(root: Path, change: str) -> bool:
    """Report whether a line of git's status is an untracked folder with a study in it: its files
    are data, and pinned elsewhere."""
    state, path = change[:3], change[3:]
    return state == "?? " and (root / path / "study.yaml").is_file()


def _git_line(root: Path, *arguments: str) -> str | None:
    """Return git's answer as text without the newline at its end."""
    answer = _git(root, *arguments)
    try:
        return None if answer is None else answer.decode().rstrip("\n")
    except UnicodeDecodeError:
        return None


def _git(root: Path, *arguments: str) -> bytes | None:
    """Return git's answer about ``root``, whatever repository this process was started from."""
    import subprocess

    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env=environment,
            capture_output=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _lock_digest(path: Path) -> str:
    try:
        return digest_bytes(path.read_bytes())
    except OSError:
        return "missing"


def main() -> int:
    """``python -m registry.provenance``: stamp the tree that this module lies in."""
    try:
        print(stamp_tree(ROOT))
    except RegistryError as error:
        print(f"provenance: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

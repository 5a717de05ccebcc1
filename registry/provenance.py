"""Provenance: which code and environment a promise was made with, and whether it is kept."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from registry.canonical import digest_bytes
from registry.errors import BrokenPromise
from registry.ledger import Provenance

_PACKAGES = (
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
    """What is true now of the checkout at ``root``; ``image`` is the sandbox image's digest.

    Untracked files make a tree dirty, ignored ones do not. Where git is missing or ``root`` is
    not the top of a repository, the commit is "unknown" and the tree dirty.
    """
    commit, dirty = _read_tree(root)
    return Provenance(
        commit=commit,
        dirty=dirty,
        lock=_lock_digest(root / "requirements.lock"),
        image=image,
        python=platform.python_version(),
        packages=tuple(_installed()),
    )


def check_pins(now: Provenance, registered: Provenance, allow_dirty: bool) -> tuple[str, ...]:
    """What differs from what was registered, in words, for the record; () if nothing does.

    Raises BrokenPromise that names it all, unless ``allow_dirty``.
    """
    deviations = tuple(_deviations(now, registered))
    if deviations and not allow_dirty:
        raise BrokenPromise(
            f"not the code that was registered: {'; '.join(deviations)}. Check out"
            f" {registered.commit} in a clean tree, or run with --allow-dirty, which the ledger"
            " records and the report shows"
        )
    return deviations


def _deviations(now: Provenance, registered: Provenance) -> list[str]:
    deviations = []
    if now.dirty:
        deviations.append("dirty tree: files differ from the commit, or there is no repository")
    pins = (("commit", "other commit"), ("lock", "other lock"), ("image", "image drifted"))
    for name, words in pins:
        is_now, was = getattr(now, name), getattr(registered, name)
        if is_now != was:
            deviations.append(f"{words}: {is_now}, registered {was}")
    return deviations


def _read_tree(root: Path) -> tuple[str, bool]:
    """The full commit and whether the tree is dirty; a tree above ``root`` does not count."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or os.path.realpath(top) != os.path.realpath(root):
        return "unknown", True
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=normal")
    return commit or "unknown", commit is None or changes is None or changes != ""


def _git(root: Path, *arguments: str) -> str | None:
    """What git answers about ``root``, whatever repository this process was started from."""
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.rstrip("\n")


def _lock_digest(path: Path) -> str:
    try:
        return digest_bytes(path.read_bytes())
    except OSError:
        return "missing"


def _installed() -> list[tuple[str, str]]:
    versions = []
    for name in _PACKAGES:
        try:
            versions.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return versions

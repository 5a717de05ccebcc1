"""A release folder, read: complete, and every file as its checksums have it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from publish.errors import PublishError
from publish.leakcheck import release_files
from registry.canonical import Digest, digest_bytes
from registry.result_row import Arm

CHECKSUMS = "checksums.json"


@dataclass(frozen=True, slots=True)
class ReleaseManifest:
    """A release folder that is complete."""

    folder: Path
    arm: str
    instances_root: str  # Merkle root of the draw
    count: int  # rows
    content: Digest  # of checksums.json, and so of every file
    files: tuple[str, ...]


def read_release(folder: Path) -> ReleaseManifest:
    """The manifest of a complete folder; every file's digest is recomputed. Raises
    PublishError that names the first file that is missing, altered or too many."""
    import json

    try:
        data = (folder / CHECKSUMS).read_bytes()
        promised = json.loads(data)
        record = json.loads((folder / "commitments.json").read_bytes())
        root, count = str(record["root"]), len(record["public"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PublishError(
            f"{folder}: not a complete release: move it away and build again"
        ) from error
    digests = checksums(folder)
    for name in sorted(promised.keys() | digests.keys()):
        if promised.get(name) != digests.get(name):
            raise PublishError(
                f"{folder}/{name}: not as {CHECKSUMS} has it: move the folder away and build again"
            )
    return ReleaseManifest(
        folder, Arm.PUBLIC.value, root, count, digest_bytes(data), (*sorted(digests), CHECKSUMS)
    )


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a release but the list of them, in hex."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in release_files(folder)
        if name != CHECKSUMS
    }

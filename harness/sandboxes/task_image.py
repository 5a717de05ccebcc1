"""The build context of a task's own image, as a stream: nothing of it rests on this machine but in
the engine."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Sequence

from generators.items import CONTEXT, DOCKERFILE
from generators.task import Asset, Environment

TASK_FOLDERS = ("/tests", "/logs/verifier", "/solution")  # in a copy: they begin empty
WORKDIR = "DOSIMETER_WORKDIR"  # variable with the work folder, for a verifier


def build_context(files: Sequence[Asset], environment: Environment) -> tuple[str, bytes]:
    """Return the tag of the image, which the content gives alone, and the context as a tar archive.
    Scripts can be run in it: files that begin with ``#!``."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in files:
            entry, data = tarfile.TarInfo(file.path.removeprefix(CONTEXT)), file.data
            if file.path == DOCKERFILE:
                data = environment.dockerfile.encode()
            entry.size, entry.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(data))
    content = archive.getvalue() + (b"network" if environment.build_network else b"")
    return f"dosimeter-task:{hashlib.sha256(content).hexdigest()[:32]}", archive.getvalue()

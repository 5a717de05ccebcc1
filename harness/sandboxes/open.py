"""Opens the sandbox provider that study.yaml names. Its library is imported here and no earlier."""

from __future__ import annotations

from typing import Any

from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import SandboxProvider


def open_provider(
    kind: str, image: str, *, executing: int = 0, memory_bytes: int = 0, **settings: Any
) -> SandboxProvider:
    """Return the provider of a kind: ``docker``, ``pods`` or ``local``. Raises HarnessError without
    an engine, a cluster or the image."""
    if kind == "local":
        return LocalSandboxes()
    if kind == "pods":
        from harness.sandboxes.pods import PodSandboxes

        return PodSandboxes(image, **settings)
    from harness.sandboxes.docker import DockerSandboxes

    return DockerSandboxes(image, executing=executing, memory_bytes=memory_bytes, **settings)

"""What the harness's tests share: real sandboxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from generators.task import Asset, Limits
from harness.sandboxes.image import ensure_image
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import Sandbox

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[LocalSandboxes]:
    provider = LocalSandboxes()
    yield provider
    provider.close()


@pytest.fixture
def sandbox(sandboxes: LocalSandboxes) -> Iterator[Sandbox]:
    assets = (Asset("notes.txt", "text/plain", b"one\ntwo\n"),)
    with sandboxes.open(assets, Limits(tool_seconds=5)) as opened:
        yield opened


@pytest.fixture(scope="module")
def docker_sandboxes() -> Iterator[DockerSandboxes]:
    """The real thing; the image is built first where it is not there."""
    from harness.sandboxes.docker import DockerSandboxes

    provider = DockerSandboxes(ensure_image().tag)
    yield provider
    provider.close()

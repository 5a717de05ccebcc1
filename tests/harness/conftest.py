"""What the harness's tests share: a real sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.task import Asset, Limits
from harness.sandbox import Sandbox
from harness.sandboxes.local import LocalSandboxes


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

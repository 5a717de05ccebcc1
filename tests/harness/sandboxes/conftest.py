"""The providers that keep the same promises: local, containers, and Pods of a server that has them
as containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from harness.sandboxes.image import ensure_image
from harness.sandboxes.open import open_provider
from harness.sandboxes.sandbox import SandboxProvider
from tests.pod_api import pod_server

_ENGINES = [pytest.param(kind, marks=pytest.mark.docker) for kind in ("docker", "pods")]


@pytest.fixture(scope="module", params=["local", *_ENGINES])
def provider(request: pytest.FixtureRequest) -> Iterator[SandboxProvider]:
    with ExitStack() as stack:
        image = "" if request.param == "local" else ensure_image().tag
        if request.param == "pods":
            stack.enter_context(pod_server())
            image = f"any/sandbox@{ensure_image().digest}"
        yield stack.enter_context(closing(open_provider(request.param, image)))

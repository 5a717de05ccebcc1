"""Stores for ledgers with checkpoints."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from registry.stores import open_store
from registry.stores.base import Store
from registry.stores.folder import FolderStore

_names = (f"checkpoints-{number}" for number in count())


@pytest.fixture(params=["folder", pytest.param("seaweedfs", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "store", durable=False)
    server: Any = request.getfixturevalue("seaweedfs")
    return open_store(server.uri(next(_names)))

"""Packages of others, for tests: as pip leaves them behind, a module and its metadata."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def installing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> Iterator[Callable[[str, str, str, str], None]]:
    """Give a function that installs a package with one entry point of a group, by its name, its
    source, and the entry point's name and object. Modules that begin with ``plug_`` are forgotten
    afterwards."""
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)

    def install(distribution: str, source: str, name: str, value: str) -> None:
        module = distribution.replace("-", "_")
        (folder / f"{module}.py").write_text(source)
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        value = value if ":" in value else f"{module}:{value}"
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")

    yield install
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]

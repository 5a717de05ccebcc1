"""Stores: puts and gets of 4 KB a second, and names listed.

python -m benchmarks.stores prints one JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.stores import open_store
from registry.stores.base import MemoryStore, Store
from registry.stores.folder import FolderStore

BODY = os.urandom(4096)
OBJECTS = 500


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, counting_seaweedfs() as (uri, _):
        stores: dict[str, Store] = {
            "memory": MemoryStore(),
            "folder": FolderStore(Path(folder) / "durable"),
            "folder, not synced": FolderStore(Path(folder) / "quick", durable=False),
            "seaweedfs": open_store(uri),
        }
        measured = {name: measure_store(store) for name, store in stores.items()}
    print(json.dumps({"benchmark": "stores", "bytes": len(BODY), **measured}))


def measure_store(store: Store) -> dict[str, float]:
    """One writer and one reader at a time."""
    keys = [f"results/{number:08d}.age" for number in range(OBJECTS)]
    store.put("warm/up", b"")
    return {
        "puts_per_s": round(rate(lambda key: store.put(key, BODY), keys)),
        "gets_per_s": round(rate(store.get, keys)),
        "listed_per_s": round(OBJECTS / seconds(lambda: list(store.list("results/")))),
    }


def rate(use: Callable[[str], object], keys: list[str]) -> float:
    return len(keys) / seconds(lambda: [use(key) for key in keys])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def counting_seaweedfs() -> Iterator[tuple[str, str]]:
    """The URI of a store on a SeaweedFS server of its own, and the address of what it counts."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "dosimeter")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "dosimeter-secret")
    script = Path(__file__).with_name("seaweedfs.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script), folder]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            line = _first_line(server)
            at = f"endpoint={line['endpoint']}&region=us-east-1"
            yield f"s3://{line['bucket']}/benchmark?{at}", line["metrics"]
        finally:
            server.communicate()


def _first_line(server: subprocess.Popen[str]) -> dict[str, str]:
    assert server.stdout is not None
    ready: dict[str, str] = json.loads(server.stdout.readline())
    return ready


if __name__ == "__main__":
    main()

"""Memory of a publication, at 200 and at 2,000 instances: prints one JSON line.

    python -m benchmarks.publishing [FEW MANY]

For each size a process of its own builds the release, uploads it to a small Hub in another process
(``tests/hub_server.py``) and reads it back. Memory is the resident peak, also after imports. The
leak check is not part of it: what it looks for grows with the draw.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generators.catalog import INSTALLED
from generators.seed import Seed
from registry.ledger import SealedSet
from registry.result_row import Arm
from registry.sealing import DrawnInstance, commitments_of, commitments_root

TASK, DIFFICULTY = "count_circles", "easy"


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        _publish(int(sys.argv[2]), sys.argv[3])
        return
    if sys.argv[1:2] == ["--hub"]:
        _serve()
        return
    sizes = [int(each) for each in sys.argv[1:]] or [200, 2000]
    print(json.dumps({f"instances_{size}": _measured(size) for size in sizes}))


def _measured(size: int) -> dict[str, float]:
    module = [sys.executable, "-m", "benchmarks.publishing"]
    with subprocess.Popen([*module, "--hub"], stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdout is not None
        url = hub.stdout.readline().strip()
        environment = {**os.environ, "HF_TOKEN": "hf_owner", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = subprocess.run(
            [*module, "--one", str(size), url], stdout=subprocess.PIPE, env=environment, check=True
        )
        hub.terminate()
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _serve() -> None:
    from tests.hub_server import HubServer

    with HubServer({"hf_owner": "owner"}) as hub:
        print(hub.url, flush=True)
        time.sleep(24 * 3600)


def _publish(size: int, url: str) -> None:
    import pyarrow.parquet  # noqa: F401 - before the measurement

    from publish.dataset_card import ReleaseText
    from publish.hub import HubPlace, upload_release
    from publish.release import build_release

    entries, sealed = _draw(size)
    before, start = _peak_mb(), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        text = ReleaseText("benchmark", "Benchmark", repository="owner/benchmark")
        release = build_release(Path(place) / "release", entries, sealed, INSTALLED.family, text)
        built, at = _peak_mb(), time.perf_counter()
        upload_release(release.folder, HubPlace("owner/benchmark", url), lambda folder: None)
        size_mb = sum((release.folder / name).stat().st_size for name in release.files) / 1e6
    print(
        json.dumps(
            {
                "release_mb": round(size_mb, 1),
                "imported_mb": before,
                "peak_build_mb": built,
                "peak_mb": _peak_mb(),
                "build_seconds": round(at - start, 1),
                "upload_seconds": round(time.perf_counter() - at, 1),
            }
        )
    )


def _draw(size: int) -> tuple[list[DrawnInstance], SealedSet]:
    family, root = INSTALLED.family(TASK), Seed(bytes(32))
    entries = []
    for index in range(size):
        seed = root.child(index)
        name = family.generate(DIFFICULTY, seed).id
        nonce = seed.child("nonce").hex
        entries.append(
            DrawnInstance(name, TASK, family.version, DIFFICULTY, seed.hex, nonce, Arm.PUBLIC)
        )
    commitments = commitments_of(entries)
    sealed = SealedSet(
        strata=(f"{TASK}/{DIFFICULTY}",),
        seeds_per_arm=size,
        count=2 * size,
        commitments=commitments,
        root=commitments_root(commitments),
        ciphertext="sha256:" + "0" * 64,
        uri="sealed/0.age",
        recipients=(),
        entropy="fixed",
        allocation_seed="0" * 64,
    )
    return entries, sealed


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    main()

"""Time to begin a wave, to resume it half done, to close it, and to read its results: prints one
JSON line.

    python -m benchmarks.sweep [CELLS] [folder | seaweedfs]

One wave of CELLS (10,000) cells, of a study that is drawn and registered. The episodes are
simulated: no model or sandbox takes part, Ray is imported and not started, and each cell has one
response, one attempt and one result, each encrypted and signed on its own under the cell's key.

``first_s`` is what a sweep of the fresh wave does before its first lease, without Ray's start and
the checks of code, image and draw: the driver finds the owed cells, the coordinator opens its lease
book and answers the first request. ``resume_s`` is the same of the wave half done. ``close_s`` is
what the driver does when nothing is owed: it finds that, reads each object, and closes the wave.
Each runs in a process of its own, and ``…_mb`` is the largest resident memory of that process,
imports included.

``singly_s`` is the time to read and decrypt the results one by one, ``derive_s`` that of the first
reader of the closed wave, who stores their rows in parts, and ``rows_s`` that of any later one,
from a new snapshot of the study to a result in memory for each cell. ``cpu_s`` has the CPU time of
the three.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from benchmarks.stores import seaweedfs
from harness.episode import Cell
from harness.episodes import RESULT_CODEC
from harness.storage import (
    RESULTS,
    TABLES,
    attempt_key,
    attempt_replies,
    reply_key,
    result_key,
)
from harness.sweep import RunContext, Schedule, prepare_ray
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.ledger import RunManifest, WaveClosed
from registry.provenance import utc_now
from registry.stores import parallel_map
from registry.stores.folder import FolderStore
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, close_wave, context_of, find_finished
from study.workspace import (
    Study,
    init_study,
    manifest_of,
    open_study,
    pinned_image,
    take_snapshot,
)
from study.workspace.setup import register_plan
from study.workspace.study_draw import draw_seeds

CELLS, INSTANCES = 10_000, 200
STUDY = """\
study: benchmark
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: HALF
replicates: REPLICATES
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.1}
waves:
  - [honest]
plan: {permutations: 999}
sandbox: {kind: local}
"""

T = TypeVar("T")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CELLS
    kind = sys.argv[2] if len(sys.argv) > 2 else "folder"
    served = seaweedfs() if kind == "seaweedfs" else nullcontext("")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, served as uri:
        study = make_study(Path(folder) / "study", count, uri)
        image = pinned_image(study.protocol)
        manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
        context = context_of(study, manifest, image, 1)
        line = measure(study, context, manifest)
        print(json.dumps({"benchmark": "sweep", "store": kind, **line}), flush=True)


def make_study(folder: Path, count: int, uri: str = "") -> Study:
    """A study with a wave of that many cells, drawn and registered without checking its power."""
    replicates = str(-(-count // INSTANCES))
    text = STUDY.replace("HALF", str(INSTANCES // 2)).replace("REPLICATES", replicates)
    init_study(folder, text + (f'store: "{uri}"\n' if uri else ""))
    study = open_study(folder)
    draw_seeds(study, lambda *step: None, utc_now)
    register_plan(study, lambda *step: None, utc_now())
    return study


def measure(study: Study, context: RunContext, manifest: RunManifest) -> dict[str, object]:
    cells = take_snapshot(study).waves[0].cells
    half, folder = len(cells) // 2, study.folder
    run_real(context, cells[half])
    begun = before_first_lease(folder, "first", len(cells) - 1)
    simulate(study, context, cells, range(half))
    resumed = before_first_lease(folder, "resume", len(cells) - half - 1)
    simulate(study, context, cells, range(half, len(cells)))
    (closed, cpu), close, peak = in_a_process(close_all, folder)
    return {
        "cells": len(cells),
        "objects": closed.objects,
        "simulated": "episodes; Ray is imported and not started",
        **begun,
        "target_first_s": "10 at 10^6 cells",
        **resumed,
        "target_resume_s": "30 at 10^6 cells",
        "close_s": close,
        "close_cpu_s": cpu,
        "target_close_s": "60 at 10^6 cells",
        **rows(study),
        "close_driver_mb": peak,
        "target_driver_mb": 150,
    }


def rows(study: Study) -> dict[str, object]:
    """Read the results of the closed wave one by one, then as rows, twice."""
    store, own = study.store, study.keys()
    keys = list(store.list(RESULTS))
    work = partial(RESULT_CODEC.read, store, keys=own)
    cpu = [time.process_time()]
    one_by_one, singly = seconds(lambda: [*parallel_map(store, work, keys)])
    cpu.append(time.process_time())
    first, derive = seconds(lambda: take_snapshot(study).waves[0].results)
    cpu.append(time.process_time())
    again, later = seconds(lambda: take_snapshot(study).waves[0].results)
    cpu.append(time.process_time())
    assert one_by_one == [*first.values()] == [*again.values()]
    parts = list(store.list(TABLES))
    size = sum(len(store.get(part)) for part in parts)
    return {
        "singly_s": singly,
        "derive_s": derive,
        "rows_s": later,
        "cpu_s": [round(after - before, 2) for before, after in pairwise(cpu)],  # of these three
        "parts": len(parts),
        "bytes_a_row": round(size / len(keys)),
    }


def before_first_lease(folder: Path, name: str, owed: int) -> dict[str, object]:
    """Measure what the driver and the coordinator do before the first lease."""
    counted, driver, driver_mb = in_a_process(count, folder)
    assert counted == owed
    _, coordinator, coordinator_mb = in_a_process(first_lease, folder)
    return {
        f"{name}_s": round(driver + coordinator, 2),
        f"{name}_driver_mb": driver_mb,
        f"{name}_coordinator_mb": coordinator_mb,
    }


Work = Callable[[Study], Callable[[], T]]


def in_a_process(work: Work[T], folder: Path) -> tuple[T, float, int]:
    """Return what the work gives in a new process, its seconds, without those to prepare it, and
    the largest resident memory in MB."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, work, folder).result()


def _measured(work: Work[T], folder: Path) -> tuple[T, float, int]:
    prepare_ray(None)
    import_module("study.cli.main")
    import_module("harness.sweep.ray_actors")
    value, spent = seconds(work(open_study(folder)))
    # Not getrusage: what that gives is at least what the parent process had.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return value, spent, round(int(peak) / 1024)


def count(study: Study) -> Callable[[], int]:
    """Count the owed cells, as the driver does first."""
    manifest, _ = run_of(study)
    return lambda: find_finished(study, manifest)[1].count(0)


def first_lease(study: Study) -> Callable[[], None]:
    """Open a coordinator and lease, as the first worker's request does."""
    from ray.util.metrics import Counter, Gauge

    from harness.sweep.coordinator import Coordinator, SweepOptions
    from harness.sweep.metrics import MetricRecorder

    context = run_of(study)[1]

    def lease() -> None:
        coordinator = Coordinator(SweepOptions(), lambda run: MetricRecorder(run, Counter, Gauge))
        epoch = context.epochs.open()
        coordinator.open(context, context.run_identity, epoch, frozenset())
        cells, over = coordinator.lease("worker", 64, frozenset())
        assert len(cells) == 64
        assert not over
        coordinator.close()

    return lease


def close_all(study: Study) -> Callable[[], tuple[WaveClosed, float]]:
    """Close a wave that owes nothing; return its record and the CPU seconds."""
    manifest, context = run_of(study)

    def close() -> tuple[WaveClosed, float]:
        before = time.process_time()
        cells, finished = find_finished(study, manifest)
        assert all(finished)
        closed = close_wave(study, context, manifest, cells, finished, utc_now)
        return closed, round(time.process_time() - before, 2)

    return close


def run_of(study: Study) -> tuple[RunManifest, RunContext]:
    manifest = manifest_of(study.ledger, 0)
    assert manifest is not None
    return manifest, context_of(study, manifest, pinned_image(study.protocol), 1)


def simulate(study: Study, context: RunContext, cells: Schedule, numbers: range) -> None:
    """Store what a finished episode leaves, for these cells."""
    plain = RESULT_CODEC.read(study.store, next(study.store.list(RESULTS)), study.keys())
    store, threads = study.store, 8
    if isinstance(store, FolderStore):
        store, threads = FolderStore(store.path, durable=False), 1

    def finish(number: int) -> None:
        cell = cells[number]
        grade = replace(plain.grade, episode=cell.episode)
        made = replace(plain, episode=cell.episode, instance=cell.instance, grade=grade)
        data = RESULT_CODEC.encode(made)
        keys = replace(context.keys_of(cell), recipients=context.recipients)
        for key in (
            reply_key(attempt_replies(cell.episode, 1), 0),
            attempt_key(cell.episode, 1),
            result_key(cell.episode),
        ):
            store.put(key, keys.seal(key, data))

    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(numbers), 10_000):
            list(pool.map(finish, numbers[start : start + 10_000]))


def run_real(context: RunContext, cell: Cell) -> None:
    """Run one cell, for a result."""
    bench = Workbench.open(context)
    assert run_cell(cell, bench, utc_now).finished
    bench.close()


def seconds(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    return work(), round(time.perf_counter() - start, 2)


if __name__ == "__main__":
    main()

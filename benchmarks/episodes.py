"""Trivial episodes, from a leased cell to its encrypted result: prints one JSON line.

    python benchmarks/episodes.py [COUNT]

No sandbox and a scripted model that answers at once, so that what is left is the harness: make
the instance, converse, grade, encode, encrypt to two recipients, put both objects into a folder
store. CPU time is of this process, all threads; memory is resident, after 1,000 episodes and
after COUNT (20,000). The same number of Inspect AI's mock samples runs beside it where
inspect_ai is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from generators.catalog import family
from generators.seed import Seed
from generators.task import Asset, Limits
from harness.episode import Cell
from harness.models.build import build_model
from harness.sandbox import ExecResult, Sandbox, SandboxRefused
from harness.schedule import Subject, schedule_cells
from harness.work import RunContext, Workbench, run_cell
from registry.records import ModelPin
from registry.seal import new_identity
from registry.store import open_store

FEW, MANY, INSTANCES = 1_000, 20_000, 100
TARGET_MS = 3.0
PIN = ModelPin("trivial", "scripted", "1", (("agent", '"trivial"'),))
TASK, DIFFICULTY = "compute_average", "easy"


class NoSandbox:
    """A sandbox in which there is nothing and nothing happens."""

    id = "none"

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> ExecResult:
        raise SandboxRefused("nothing runs here")

    def read(self, path: str, max_bytes: int) -> bytes:
        raise SandboxRefused("there are no files")

    def write(self, path: str, data: bytes) -> None:
        raise SandboxRefused("there are no files")

    def close(self) -> None:
        """Nothing to close."""

    def __enter__(self) -> NoSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NoSandboxes:
    image = "none"
    isolates = False

    def open(self, assets: Sequence[Asset], limits: Limits) -> Sandbox:
        return NoSandbox()

    def close(self) -> None:
        """Nothing to close."""


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    few = min(FEW, many)
    cells = owed_cells(many)
    with tempfile.TemporaryDirectory() as folder:
        bench = workbench(folder)
        work_through(cells[:50], bench)  # imports and caches
        started = time.monotonic()
        early = cpu_ms(lambda: work_through(cells[50 : 50 + few], bench)) / few
        memory_early = resident_mb()
        rest = cells[50 + few : 50 + many]
        late = cpu_ms(lambda: work_through(rest, bench)) / len(rest) if rest else early
        wall = time.monotonic() - started
        stored = sum(1 for _ in bench.store.list("results/"))
    generation = generation_ms()
    total = (early * few + late * len(rest)) / (few + len(rest))
    line: dict[str, Any] = {
        "benchmark": "episodes",
        "episodes": few + len(rest),
        "cpu_ms_each": round(total, 3),
        "cpu_ms_each_first": round(early, 3),
        "cpu_ms_each_rest": round(late, 3),
        "cpu_ms_to_make_the_instance_once": round(generation, 3),
        "target_cpu_ms": TARGET_MS,
        "met": total <= TARGET_MS,
        "episodes_per_second": round((few + len(rest)) / wall, 1),
        f"resident_mb_at_{few}": round(memory_early, 1),
        f"resident_mb_at_{few + len(rest)}": round(resident_mb(), 1),
        "results_stored": stored,
        "inspect": time_inspect(few),
    }
    print(json.dumps(line))


def owed_cells(count: int) -> tuple[Cell, ...]:
    """That many cells and 50 to warm up on, over 100 instances."""
    root = Seed(hashlib.sha256(b"benchmark episodes").digest())
    seeds = [root.child(number) for number in range(INSTANCES)]
    made = [family(TASK).generate(DIFFICULTY, seed) for seed in seeds]
    subjects = [
        Subject(instance.spec, instance.id, seed)
        for instance, seed in zip(made, seeds, strict=True)
    ]
    replicates = -(-(count + 50) // INSTANCES)
    return schedule_cells("benchmark", 0, subjects, (PIN,), replicates, root)


def workbench(folder: str) -> Workbench:
    study, run = new_identity(), new_identity()
    context = RunContext(
        study="benchmark",
        run="sha256:" + "0" * 64,
        wave=0,
        store=folder,
        recipients=(study[1],),
        run_recipient=run[1],
        run_identity=run[0],
        models=(PIN,),
        sandbox="local",
        runtime="",
        image_tag="",
        image_digest="none",
        parallel=1,
        folder=folder,
    )
    return Workbench(context, open_store(folder), {PIN.name: build_model(PIN)}, NoSandboxes())


def work_through(cells: Sequence[Cell], bench: Workbench) -> None:
    for cell in cells:
        outcome = run_cell(cell, bench, lambda: "2026-11-21T12:00:00Z")
        if not outcome.finished:
            raise SystemExit(f"an episode failed: {outcome.error_class}")


def cpu_ms(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def generation_ms() -> float:
    task, seeds = family(TASK), [Seed(bytes(32)).child(number) for number in range(500)]

    def generate() -> None:
        for seed in seeds:
            task.generate(DIFFICULTY, seed)

    return cpu_ms(generate) / len(seeds)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def time_inspect(count: int) -> dict[str, float] | None:
    """CPU-ms of one of Inspect's mock samples, its logs on and off; None where it is not there."""
    if importlib.util.find_spec("inspect_ai") is None:
        return None
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match

    def run(realtime: bool) -> None:
        samples = [Sample(input=f"What is {n}?", target="x") for n in range(count)]
        task = inspect_ai.Task(dataset=samples, scorer=match())
        with tempfile.TemporaryDirectory() as logs:
            inspect_ai.eval(
                task, model="mockllm/model", log_dir=logs, display="none", log_realtime=realtime
            )

    run(True)
    return {
        "cpu_ms_each": round(cpu_ms(lambda: run(True)) / count, 3),
        "cpu_ms_each_no_live_log": round(cpu_ms(lambda: run(False)) / count, 3),
    }


if __name__ == "__main__":
    main()

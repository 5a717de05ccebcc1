"""Trivial episodes, from a brief to the encrypted result: prints one JSON line.

    python -m benchmarks.episodes [COUNT]

A single turn, so no sandbox, of a scripted model that answers at once: what is left is the harness,
which converses, grades, tabulates, encodes, seals, and puts the attempt and the result into a
durable folder store. CPU time is of this process, all threads; memory is resident, after 1,000
episodes and after COUNT (20,000). Beside it: the same through a worker's ``run_cell``, which also
makes the instance from its seed, once for up to eight replicates, and looks what is stored already;
and Inspect AI's own runner in the same process, with as many samples of the same prompts as
``run_cell`` has, its mocked model and its log.

ext4 searches past the inodes of files that were deleted in the last minutes, which costs the kernel
up to 1 ms an episode: run it again after five minutes, or with TMPDIR on a fresh folder below /.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset, Limits, TaskInstance
from harness.build_model import build_model, read_window
from harness.episode import Cell
from harness.episodes.grading import grade_episode
from harness.episodes.result import RESULT_CODEC, summarise_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.sandboxes.sandbox import Sandbox, SandboxRefused
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC, attempt_key, result_key
from harness.sweep.run_cell import run_cell
from harness.sweep.schedule import WaveInstance, WavePlan, schedule_cells
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.records import ModelPin
from registry.sealing import new_identity
from registry.stores import open_store

FEW, MANY, INSTANCES, WARM_UP = 1_000, 20_000, 100, 50
PIN = ModelPin("trivial", "scripted", "1", (("agent", '"trivial"'), ("context", "8000")))
TASK, DIFFICULTY = "compute_average", "easy"


class NoSandboxes:
    image = "none"
    isolates, trouble = False, ""
    libraries: tuple[tuple[str, str], ...] = ()

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        raise SandboxRefused("a single turn has no sandbox")

    def close(self) -> None:
        """Nothing to close."""


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    few = min(FEW, many)
    cells = owed_cells(many + few)
    ahead, cells, behind = cells[:WARM_UP], cells[WARM_UP:-few], cells[-few:]
    with tempfile.TemporaryDirectory() as folder:
        bench = workbench(folder)
        run_episodes(ahead[::2], bench)  # imports and caches
        run_cells(ahead[1::2], bench)
        started = time.monotonic()
        early = cpu_ms(lambda: run_episodes(cells[:few], bench))
        memory = {few: resident_mb()}
        late = cpu_ms(lambda: run_episodes(cells[few:many], bench))
        memory[many] = resident_mb()
        wall = time.monotonic() - started
        whole = cpu_ms(lambda: run_cells(behind, bench))
        run_inspect(WARM_UP, folder)
        peer = cpu_ms(lambda: run_inspect(few, folder))
        stored = sum(1 for _ in bench.store.list("results/"))
    line: dict[str, Any] = {
        "benchmark": "episodes",
        "episodes": many,
        "cpu_ms_each": round((early + late) / many, 3),
        "episodes_per_second_wall": round(many / wall, 1),
        "resident_mb": {str(count): round(size, 1) for count, size in memory.items()},
        "cpu_ms_each_from_seed": round(whole / few, 3),
        "results_stored": stored,
        "cpu_ms_each_inspect": round(peer / few, 3),
    }
    print(json.dumps(line))


def owed_cells(count: int) -> tuple[Cell, ...]:
    """That many cells, and some to warm up on, over 100 instances."""
    subjects = [
        WaveInstance(instance.spec, name, seed)
        for (name, instance), seed in zip(_instances().items(), _seeds(), strict=True)
    ]
    replicates = -(-(count + WARM_UP) // INSTANCES)
    single = (f"{TASK}/{DIFFICULTY}",)
    plan = WavePlan("benchmark", 0, (PIN,), (replicates,), _root().hex, single_turn=single)
    cells = schedule_cells(plan, subjects, _root().hex)
    return cells[: count + WARM_UP]


def _root() -> Seed:
    return Seed(hashlib.sha256(b"benchmark episodes").digest())


def _seeds() -> list[Seed]:
    return [_root().child(number) for number in range(INSTANCES)]


@cache
def _instances() -> dict[str, TaskInstance]:
    made = [INSTALLED.family(TASK).generate(DIFFICULTY, seed) for seed in _seeds()]
    return {instance.id: instance for instance in made}


def workbench(folder: str) -> Workbench:
    study, run = new_identity(), new_identity()
    context = RunContext(
        plan=WavePlan("benchmark", 0, (PIN,), (1,), _root().hex),
        run="sha256:" + "0" * 64,
        store=folder,
        recipients=(study[1],),
        trusted=frozenset(),
        run_recipient=run[1],
        run_identity=run[0],
        sandbox="local",
        runtime="",
        image_tag="",
        image_digest="none",
        parallel=1,
        folder=folder,
        code="",
    )
    return Workbench(context, open_store(folder), {PIN.name: build_model(PIN)}, NoSandboxes())


def run_episodes(cells: Sequence[Cell], bench: Workbench) -> None:
    """What a worker does with a cell, once it has the instance."""
    context = bench.context
    for cell in cells:
        instance, keys = _instances()[cell.instance], context.keys_of(cell)
        episode = run_attempt(
            AttemptRequest(
                *(cell, 1, instance.brief),
                run=context.run,
                journal=MemoryJournal(),
                window=read_window(PIN),
            ),
            bench.models[cell.model],
            bench.sandboxes,
            noon,
        )
        EPISODE_CODEC.write(bench.store, attempt_key(cell.episode, 1), episode, keys)
        grade = grade_episode(instance, episode)
        result = summarise_episode(context.plan.wave, cell, episode, grade, 1)
        RESULT_CODEC.write(bench.store, result_key(cell.episode), result, keys)


def run_cells(cells: Sequence[Cell], bench: Workbench) -> None:
    for cell in cells:
        outcome = run_cell(cell, bench, noon)
        if not outcome.finished:
            raise SystemExit(f"an episode failed: {outcome.error_class}")


def run_inspect(count: int, folder: str) -> None:
    """What Inspect AI does with as many samples, in a single turn of a mocked model."""
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes

    prompts = cycle(instance.brief.prompt for instance in _instances().values())
    samples = [Sample(prompt, target="<answer>") for prompt in islice(prompts, count)]
    task = Task(MemoryDataset(samples), scorer=includes())
    reply = ModelOutput.from_content("mockllm", "<answer>")
    reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=[reply] * count)
    (log,) = run(task, model=model, log_dir=folder, display="none")
    assert log.status == "success", log.error


def noon() -> str:
    return "2026-11-21T12:00:00Z"


def cpu_ms(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()

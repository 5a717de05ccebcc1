"""A thousand episodes in flight in one worker: prints one JSON line.

    python -m benchmarks.inflight [COUNT]

This process is a worker's hand, with COUNT (1,000) cells at once: what it runs is ``pull``, each
episode an agent behind an OpenAI-compatible server of another process, which holds every reply of
a turn until all episodes wait for theirs. So all of them are in flight together, twice: on a tool
call, and on the answer, with the call in the conversation. Memory is resident, of this process at
these two moments; to the larger is added what the worker's other half takes, the shell that talks
to Ray. What is not in it: the sandboxes, which are processes of the engine; a stand-in that
refuses everything is in their place.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from benchmarks.episodes import NoSandboxes, owed_cells, resident_mb, workbench
from benchmarks.openai_stub import Json, call, serve_chat, text, tool_results
from harness.build_model import build_model
from harness.episode import Cell
from harness.sweep.epochs import WorkerClaims
from harness.sweep.governor import LeaseOutcome
from harness.sweep.purchases import CallCounts
from harness.sweep.spool import StorePause
from harness.sweep.workbench import Workbench
from harness.sweep.worker_process import LeaseClient, Renewal, pull
from registry.ledger.records import ModelPin

COUNT, TURNS, TARGET_MB = 1_000, 2, 400
MAX_LEASED = 64  # at a time, as by a coordinator
_CODE = "print(1)\n" * 20
_ANSWER = 'It is so.\n<answer>\n{"average": 1.0}\n</answer>'


class Isolated(NoSandboxes):
    """The stand-in, for models that are not built in: it runs nothing at all."""

    isolates = True


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    spawn = multiprocessing.get_context("spawn")
    near, far = spawn.Pipe()
    server = spawn.Process(target=serve, args=(far, count), daemon=True)
    server.start()
    port = near.recv()
    with tempfile.TemporaryDirectory() as folder:
        line = measure(f"http://127.0.0.1:{port}/v1", folder, near, count)
    server.terminate()
    print(json.dumps(line))


def measure(url: str, folder: str, server: Connection, count: int) -> dict[str, Any]:
    pin = ModelPin("served", "openai", "mock", (("api_key_env", '""'), ("base_url", f'"{url}"')))
    cells = BatchedCells([replace(cell, model=pin.name) for cell in owed_cells(count)[:count]])
    bench = bench_of(pin, folder)
    claims = WorkerClaims(bench.context.epochs, "000000-1", bench.purchases.stopped)
    before, begun, waiting = resident_mb(), time.perf_counter(), []
    with ThreadPoolExecutor(1) as pool:
        pulled = pool.submit(pull, cells, bench, count, claims, Random().shuffle)
        for _ in range(TURNS):
            assert server.recv() == count  # all wait for a reply of this turn
            waiting.append(resident_mb())
            server.send("go on")
        assert pulled.result() == count, "some episodes failed"
    bench.close()
    shell = shell_mb()
    return {
        "benchmark": "inflight",
        "episodes_in_flight": count,
        "hand_mb": [round(size, 1) for size in waiting],
        "hand_before_mb": round(before, 1),
        "shell_mb": round(shell, 1),
        "worker_mb": round(max(waiting) + shell, 1),
        "target_mb": TARGET_MB,
        "met": max(waiting) + shell <= TARGET_MB,
        "seconds": round(time.perf_counter() - begun, 1),
    }


class BatchedCells(LeaseClient):
    """Leases all the cells, a batch at a time."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        count = min(capacity, MAX_LEASED)
        batch, self.cells = self.cells[:count], self.cells[count:]
        return tuple(batch), not self.cells

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None:
        """Nobody reads it here."""

    def hear(
        self, holding: frozenset[str], pause: StorePause | None, calls: Mapping[str, CallCounts]
    ) -> tuple[Renewal, None]:
        """Leases never end here."""
        return Renewal.RENEWED, None

    def attend(self) -> None:
        """It is always there."""


def shell_mb() -> float:
    """Of a fresh process with what the actor of a worker has loaded."""
    program = (
        "import harness.sweep.ray_actors; "
        "from benchmarks.episodes import resident_mb as r; print(r())"
    )
    return float(subprocess.check_output([sys.executable, "-c", program], text=True))


def bench_of(pin: ModelPin, folder: str) -> Workbench:
    made = workbench(folder)
    context = replace(made.context, models=(pin,))
    return Workbench(context, made.store, {pin.name: build_model(pin, {})}, Isolated())


def serve(link: Connection, count: int) -> None:
    """Serve; the replies of a turn go out once ``count`` requests wait and ``link`` signals."""
    asyncio.run(_serve(link, count))


async def _serve(link: Connection, count: int) -> None:
    gates = [asyncio.Event() for _ in range(TURNS)]
    waiting = [0] * TURNS

    async def say(asked: Json) -> Json:
        turn = len(tool_results(asked))
        waiting[turn] += 1
        if waiting[turn] == count:
            link.send(count)
            await asyncio.to_thread(link.recv)
            gates[turn].set()
        await gates[turn].wait()
        return text(_ANSWER) if turn else call("execute_python", code=_CODE)

    await serve_chat(say, link.send)


if __name__ == "__main__":
    main()

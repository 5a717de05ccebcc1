"""A thousand episodes in flight in one worker: prints one JSON line.

    python -m benchmarks.inflight [COUNT]

The process that is measured does what a sweep's worker does, with COUNT (1,000) episodes at once:
``run_cell`` in as many threads, each an agent behind an OpenAI-compatible server of its own
process, which holds every reply of a turn until all episodes wait for theirs. So all of them are
in flight together, twice: on a tool call, and on the answer, with the call in the conversation.
Memory is resident, of that process alone, with Ray imported as in a worker. What is not in it: the
sandboxes, which are processes of the engine; a stand-in that refuses everything is in their place.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from benchmarks._server import Json, call, serve_chat, text, tool_results
from benchmarks.episodes import NoSandboxes, noon, owed_cells, resident_mb, workbench
from harness.models.build import build_model
from harness.work import Workbench, run_cell
from registry.records import ModelPin

COUNT, TURNS, TARGET_MB = 1_000, 2, 400
_CODE = "print(1)\n" * 20
_ANSWER = 'It is so.\n<answer>\n{"average": 1.0}\n</answer>'


class Isolated(NoSandboxes):
    """The stand-in, for models that are not built in: it runs nothing at all."""

    isolates = True


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(theirs, count), daemon=True)
    server.start()
    port = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        line = measure(f"http://127.0.0.1:{port}/v1", folder, ours, count)
    server.terminate()
    print(json.dumps(line))


def measure(url: str, folder: str, server: Connection, count: int) -> dict[str, Any]:
    pin = ModelPin("served", "openai", "mock", (("api_key_env", '""'), ("base_url", f'"{url}"')))
    cells = [replace(cell, model=pin.name) for cell in owed_cells(count)[:count]]
    bench = bench_of(pin, folder)
    import ray  # noqa: F401 - for its weight, which every worker of a sweep carries

    loaded = resident_mb()
    begun, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(count, thread_name_prefix="episode") as pool:
        futures = [pool.submit(run_cell, cell, bench, noon) for cell in cells]
        waiting = []
        for _ in range(TURNS):
            in_flight = server.recv()  # all wait for a reply of this turn
            waiting.append(resident_mb())
            assert in_flight == count
            server.send("go on")
        finished = sum(future.result().finished for future in futures)
    bench.close()
    assert finished == count, f"{count - finished} episodes failed"
    return {
        "benchmark": "inflight",
        "episodes_in_flight": count,
        "resident_mb": [round(size, 1) for size in waiting],
        "target_mb": TARGET_MB,
        "met": max(waiting) <= TARGET_MB,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "before_with_ray_mb": round(loaded, 1),
        "cpu_ms_each": round((time.process_time() - used) * 1e3 / count, 2),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def bench_of(pin: ModelPin, folder: str) -> Workbench:
    made = workbench(folder)
    context = replace(made.context, models=(pin,))
    return Workbench(context, made.store, {pin.name: build_model(pin, {})}, Isolated())


def serve(link: Connection, count: int) -> None:
    """A server whose replies of a turn go out when ``count`` requests wait and it is told to."""
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

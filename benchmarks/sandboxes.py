"""Sandboxes: how soon one is ready, how many a second, and what the client spends on each.

Prints one line of JSON. Needs a Docker engine and the sandbox image (`make image`).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from generators.task import Asset, Limits
from harness.sandboxes.docker import DockerSandboxes
from harness.sandboxes.image import ensure_image

SERIAL, WIDE, EPISODES = 12, 8, 64
ASSETS = (Asset("data.csv", "text/csv", b"x\n" * 1000),)
PROGRAM = ["python3", "-c", "print(sum(1 for _ in open('data.csv')))"]


def main() -> None:
    tag = ensure_image().tag
    ready = measure_ready(tag, warm=0), measure_ready(tag, warm=2)
    episodes, cpu = measure_throughput(tag)
    print(
        json.dumps(
            {
                "benchmark": "sandboxes",
                "cores": os.cpu_count(),
                "ready_serial_s": ready[0],
                "ready_serial_target_s": 0.25,
                "ready_from_pool_s": ready[1],
                "episodes_per_s_8_wide": episodes,
                "episodes_per_s_target": 6.0,
                "client_cpu_s_per_episode": cpu,
                "client_cpu_target_s": 0.05,
            }
        )
    )


def measure_ready(tag: str, warm: int) -> float:
    """Median seconds from ``open`` to a sandbox that holds its input files; the pool, if there
    is one, is let fill up before each."""
    provider = DockerSandboxes(tag, warm=warm)
    seconds = []
    for _ in range(SERIAL):
        provider.prepare(Limits())
        while provider.ready(Limits()) < warm:
            time.sleep(0.01)
        begun = time.perf_counter()
        with provider.open(ASSETS, Limits()):
            seconds.append(time.perf_counter() - begun)
        time.sleep(0.2)  # removal is not what is measured here
    provider.close()
    return round(statistics.median(seconds), 4)


def measure_throughput(tag: str) -> tuple[float, float]:
    """Episodes (open, one Python call, close) a second, and CPU seconds of this process each;
    the pool's filling and emptying are part of it."""
    used = cpu_seconds()
    begun = time.perf_counter()
    provider = DockerSandboxes(tag, warm=WIDE // 2)
    with ThreadPoolExecutor(WIDE) as threads:
        outputs = list(threads.map(lambda _: run_episode(provider), range(EPISODES)))
    provider.close()
    elapsed = time.perf_counter() - begun
    assert outputs == [b"1000\n"] * EPISODES
    return round(EPISODES / elapsed, 2), round((cpu_seconds() - used) / EPISODES, 4)


def run_episode(provider: DockerSandboxes) -> bytes:
    with provider.open(ASSETS, Limits()) as sandbox:
        return sandbox.run(PROGRAM, 60).output


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

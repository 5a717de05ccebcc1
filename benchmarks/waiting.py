"""Rates of work that waits, of real sweeps over HTTP: prints one JSON line.

    python -m benchmarks.waiting [nodes | beside | limited]

A server of this process answers each request after a second, so that an episode, of one turn,
waits nearly all its time.

``nodes``: replies a second on a Ray cluster of one node and of two, real raylets on this machine
with one worker each and eight episodes at once in each. The rate is that of the middle half of the
requests, when all workers are at work. ``beside``: replies a second of a model alone, and beside
one that answers every request with 429 and ``Retry-After: 20``; one worker with six episodes at
once, from the model's first request to its last. ``limited``: a server that refuses what is over
four requests a second, and takes five seconds for a reply; two workers with 16 episodes at once
each. Its refusals, and the replies it was asked for relative to those it allows, from the first
request to the last: alone, and with that rate in study.yaml.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.sweep.purchases import TokenBucket
from harness.sweep.worker_process import prepare_ray
from registry.provenance import utc_now
from study.workspace import init_study, open_study
from study.workspace.setup import register_plan
from study.workspace.study_draw import draw_seeds
from tests.conformance.transport import Answer, Json
from tests.harness.openai_server import completion, failure, serve

SECONDS = 1.0  # until a reply
NODES_EPISODES, NODES_PARALLEL, TARGET_NODES = 160, 8, 1.8
BESIDE_EPISODES, BESIDE_PARALLEL, TARGET_BESIDE = 120, 6, 0.95
INSTANCES = 40
LIMITED_EPISODES, LIMITED_PARALLEL, LIMITED_RATE, LIMITED_SECONDS = 480, 16, 4.0, 5.0
TARGET_LIMITED = {"rate": 0.9, "refusals_per_reply": 0.05}
STUDY = """\
study: waiting
tasks: [{{family: compute_average, difficulty: easy, mode: single_turn}}]
seeds_per_arm: {half}
replicates: {replicates}
models:
{models}
waves: [[{names}]]
plan: {{permutations: 999}}
sandbox: {{kind: local}}
sweep: {{parallel: {parallel}{rates}}}
"""
MODEL = (
    '  {name}: {{provider: openai, model: m, base_url: "{url}", api_key_env: "", context: 100000}}'
)


@dataclass(frozen=True)
class SlowModel:
    """A served model, and the times of its requests, in seconds of the monotonic clock."""

    url: str
    times: list[float]


def main() -> None:
    modes = {"nodes": compare_nodes, "beside": compare_neighbours, "limited": compare_limits}
    chosen = sys.argv[1:] or list(modes)
    prepare_ray(None)
    line = {name: modes[name]() for name in chosen}
    print(json.dumps({"benchmark": "waiting", "seconds_a_reply": SECONDS, **line}), flush=True)


def compare_nodes() -> dict[str, object]:
    rates = {count: nodes_rate(count) for count in (1, 2)}
    return {
        "replies_per_second": {str(count): round(rate, 2) for count, rate in rates.items()},
        "ratio": round(rates[2] / rates[1], 3),
        "target": TARGET_NODES,
    }


def nodes_rate(nodes: int) -> float:
    """Replies a second of a sweep on that many nodes."""
    with slow_model() as model, cluster(nodes) as address, tempfile.TemporaryDirectory() as folder:
        make_study(folder, {"m": model.url}, NODES_EPISODES, NODES_PARALLEL)
        sweep = start_sweep(folder, "--address", address, "--workers", str(nodes))
        _, errors = sweep.communicate()
        if sweep.returncode:
            raise SystemExit(errors)
        half = sorted(model.times)[NODES_EPISODES // 4 : 3 * NODES_EPISODES // 4]
    return rate_of(half)


def compare_neighbours() -> dict[str, object]:
    alone, beside = neighbour_rate(throttled=False), neighbour_rate(throttled=True)
    return {
        "replies_per_second": {"alone": round(alone, 2), "beside": round(beside, 2)},
        "ratio": round(beside / alone, 3),
        "target": TARGET_BESIDE,
    }


def neighbour_rate(throttled: bool) -> float:
    """Replies a second of a model until it owes nothing, perhaps beside a throttled one."""
    with (
        slow_model() as model,
        serve(always=lambda asked: failure(429, headers=(("Retry-After", "20"),))) as ill,
        tempfile.TemporaryDirectory() as folder,
    ):
        urls = {"healthy": model.url} | ({"ill": ill.url} if throttled else {})
        make_study(folder, urls, BESIDE_EPISODES, BESIDE_PARALLEL)
        sweep = start_sweep(folder)
        while len(model.times) < BESIDE_EPISODES and sweep.poll() is None:
            time.sleep(0.1)
        sweep.send_signal(signal.SIGINT)
        _, errors = sweep.communicate()
        if len(model.times) != BESIDE_EPISODES:
            raise SystemExit(errors)
        return rate_of(sorted(model.times))


def compare_limits() -> dict[str, object]:
    return {
        "allowed_per_second": LIMITED_RATE,
        "seconds_a_reply": LIMITED_SECONDS,
        "found": limited_rate(""),
        "stated": limited_rate(f", requests_per_minute: {{m: {60 * LIMITED_RATE}}}"),
        "target": TARGET_LIMITED,
    }


def limited_rate(rates: str) -> dict[str, float]:
    """What a server with a limit was asked for by a sweep with these ``rates`` in its study."""
    replied, refused, bucket = list[float](), list[float](), TokenBucket()
    bucket.set_rate(LIMITED_RATE, time.monotonic())
    lock = threading.Lock()

    def answer(asked: Json) -> Answer:
        now = time.monotonic()
        with lock:
            if bucket.seconds_until(1, now) > 0:
                refused.append(now)
                return failure(429)
            bucket.take(1, now)
            replied.append(now)
        return replace(completion("None."), seconds=LIMITED_SECONDS)

    with serve(always=answer) as served, tempfile.TemporaryDirectory() as folder:
        make_study(folder, {"m": served.url}, LIMITED_EPISODES, LIMITED_PARALLEL, rates)
        sweep = start_sweep(folder, "--workers", "2")
        _, errors = sweep.communicate()
        if sweep.returncode or len(replied) != LIMITED_EPISODES:
            raise SystemExit(errors)
    return {
        "rate": round(rate_of(sorted(replied)) / LIMITED_RATE, 3),
        "refusals_per_reply": round(len(refused) / len(replied), 3),
    }


def rate_of(times: Sequence[float]) -> float:
    return (len(times) - 1) / (times[-1] - times[0])


@contextmanager
def slow_model() -> Iterator[SlowModel]:
    times: list[float] = []

    def answer(asked: Json) -> Answer:
        times.append(time.monotonic())
        return replace(completion("None."), seconds=SECONDS)

    with serve(always=answer) as served:
        yield SlowModel(served.url, times)


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """The address of a cluster with a head that runs no episodes, and that many nodes that do."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, resources={"sandbox": 1})
        yield made.address
    finally:
        made.shutdown()


def make_study(
    folder: str, urls: dict[str, str], episodes: int, parallel: int, rates: str = ""
) -> None:
    """A study of these models, drawn and registered, with that many episodes of each."""
    text = STUDY.format(
        half=INSTANCES // 2,
        replicates=episodes // INSTANCES,
        models="\n".join(MODEL.format(name=name, url=url) for name, url in urls.items()),
        names=", ".join(urls),
        parallel=parallel,
        rates=rates,
    )
    init_study(Path(folder), text)
    study = open_study(Path(folder))
    draw_seeds(study, lambda *step: None, utc_now)
    register_plan(study, lambda *step: None, utc_now())


def start_sweep(folder: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "study.cli.main", "sweep", "--wave", "0", "--allow-dirty"]
    return subprocess.Popen(
        [*command, "--allow-unknown-price", "--study", folder, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    main()

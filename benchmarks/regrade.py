"""`verify --regrade` of a stored wave on two processes: one JSON line.

    python -m benchmarks.regrade [EPISODES]     (10,000 by default)

One episode of each instance is run by a built-in agent; the others are copies of its attempt,
signed and encrypted for the episode that they stand for, with a grade by this code. So each episode
has an attempt, a result and a name of its own, and each instance is made again once, as in a study
with many models.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.episodes import RESULT_CODEC, grade_episode, summarise_episode
from harness.storage import EPISODE_CODEC, attempt_key, result_key
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench, instance_of
from registry.ledger import Ledger
from registry.provenance import utc_now
from registry.stores.folder import FolderStore
from study import pipeline
from study.evidence import VerifyRequest, verify
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, close_wave, context_of
from study.workspace.setup import init_study, pinned_image
from study.workspace.snapshot import cells_of
from study.workspace.study import Study

EPISODES, INSTANCES, PROCESSES, SECONDS = 10_000, 80, 2, 600.0
PROTOCOL = """\
study: regraded
tasks:
  - {{family: hubble_constant, difficulty: easy}}
  - {{family: cepheid_calibration, difficulty: easy}}
seeds_per_arm: 20
models:
  honest: {{provider: scripted, agent: honest, error_rate: 0.3}}
waves:
  - [honest]
replicates: {replicates}
plan: {{permutations: 199}}
sandbox: {{kind: local}}
"""


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    with tempfile.TemporaryDirectory(prefix="regrade-") as folder:
        study = make_study(Path(folder) / "study", wanted)
        begun, cpu = time.perf_counter(), _cpu()
        found = verify(study, VerifyRequest(), lambda *step: None)
        checked = time.perf_counter() - begun
        begun, cpu = time.perf_counter(), _cpu()
        request = VerifyRequest(regrade=True, processes=PROCESSES)
        regraded = verify(study, request, lambda *step: None)
        seconds, cpu = time.perf_counter() - begun, _cpu() - cpu
    made = dict(regraded.counts).get("grades made again", 0)
    line: dict[str, Any] = {
        "benchmark": "regrade",
        "episodes": made,
        "instances": INSTANCES,
        "processes": PROCESSES,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "of_these_without_regrading": round(checked, 1),
        "target_seconds": SECONDS * made / EPISODES,
        "met": found.holds and regraded.holds and seconds <= SECONDS * made / EPISODES,
    }
    print(json.dumps(line))


def make_study(folder: Path, wanted: int) -> Study:
    """A study with a closed wave of about so many episodes."""
    init_study(folder, PROTOCOL.format(replicates=max(1, wanted // INSTANCES)))
    study = pipeline.open_study(folder)
    quick = FolderStore(folder / "store", durable=False)
    study = replace(study, store=quick, ledger=Ledger(quick, study.signer))
    pipeline.draw(study, underpowered="a benchmark")
    pipeline.register(study)
    manifest = begin_wave(
        study, SweepRequest(0, allow_dirty=True), pinned_image(study.protocol), utc_now
    )
    cells = cells_of(study, manifest)
    context = context_of(study, manifest, pinned_image(study.protocol), 1)
    bench = Workbench.open(context)
    first: dict[str, Any] = {}
    for cell in cells:
        if cell.instance not in first:
            assert run_cell(cell, bench, utc_now).finished
            key = attempt_key(cell.episode, 1)
            episode = EPISODE_CODEC.read(study.store, key, context.keys_of(cell))
            first[cell.instance] = instance_of(cell, bench.catalog), episode
            continue
        instance, done = first[cell.instance]
        episode = replace(done, id=cell.episode, replicate=cell.replicate)
        keys = context.keys_of(cell)
        EPISODE_CODEC.write(study.store, attempt_key(cell.episode, 1), episode, keys)
        result = summarise_episode(0, cell, episode, grade_episode(instance, episode), 1)
        RESULT_CODEC.write(
            study.store,
            result_key(cell.episode),
            result,
            replace(keys, recipients=study.recipients()),
        )
    bench.close()
    close_wave(study, context, manifest, cells, bytes([1]) * len(cells), utc_now)
    return study


def _cpu() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()

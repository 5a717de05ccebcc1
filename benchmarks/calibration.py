"""Models trained on a release: CPU seconds of a base and of each dose, and of 800 answers.

    python -m benchmarks.calibration

Prints one JSON line for each. Training needs dosimeter[spike], and is left out without it. The 800
answers are single turns of ``order_statistics/easy`` through the whole line, from seed to stored
grade, in this process: each instance is made from its seed, put to a small model, stored,
encrypted and graded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from generators.seed import Seed
from harness.models.trained import weights_bytes
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.provenance import utc_now
from study.calibration.from_training import TrainRequest, train_seed
from study.calibration.training import fresh_rows, initial_weights
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, context_of
from study.workspace import init_study, open_study
from study.workspace.setup import pinned_image, register_plan
from study.workspace.snapshot import cells_of
from study.workspace.study_draw import draw_seeds

ANSWERS, COPIES = 800, 16
TARGET_TRAINING, TARGET_ANSWERS = 15, 10  # seconds
STUDY = """\
study: calibration-benchmark
tasks:
  - {family: order_statistics, difficulty: easy, mode: single_turn}
seeds_per_arm: HALF
models:
  small: {provider: trained, weights: small.npz, sha256: "DIGEST"}
waves:
  - [small]
plan: {permutations: 999}
sandbox: {kind: local}
"""


def main() -> None:
    if importlib.util.find_spec("jax") is not None:
        measure_training()
    with tempfile.TemporaryDirectory() as folder:
        measure_answers(Path(folder))


def measure_training() -> None:
    """Print the CPU seconds of a base, its fresh rows included, and of the dearest dose."""
    public = fresh_rows(Seed(hashlib.sha256(b"benchmark").digest()), 400)
    begun = time.process_time()
    for name, *_ in train_seed(1, TrainRequest((COPIES,)), public):
        spent = time.process_time() - begun
        show(f"training {name}", cpu_s=round(spent, 1), target_cpu_s=TARGET_TRAINING)
        begun = time.process_time()


def measure_answers(folder: Path) -> None:
    """Print the seconds that ``ANSWERS`` answers take through the whole line."""
    data = weights_bytes(initial_weights(np.random.default_rng(1)))
    text = STUDY.replace("HALF", str(ANSWERS // 2))
    init_study(folder / "study", text.replace("DIGEST", hashlib.sha256(data).hexdigest()))
    (folder / "study/small.npz").write_bytes(data)
    study = open_study(folder / "study")
    draw_seeds(study, lambda *step: None, utc_now)
    register_plan(study, lambda *step: None, utc_now())
    wall, cpu = time.monotonic(), time.process_time()
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    cells = cells_of(study, manifest)
    bench = Workbench.open(context_of(study, manifest, image, 1))
    finished = sum(run_cell(cell, bench, utc_now).finished for cell in cells)
    bench.close()
    show(
        "answers",
        answers=finished,
        wall_s=round(time.monotonic() - wall, 1),
        cpu_s=round(time.process_time() - cpu, 1),
        target_wall_s=TARGET_ANSWERS,
    )


def show(what: str, **values: object) -> None:
    print(json.dumps({"benchmark": "calibration", "what": what, **values}), flush=True)


if __name__ == "__main__":
    main()

"""Samples of the PAST (ten questions, twenty samples each, files on disk) prepared per second by
one process, by the wall clock and per CPU-second: prints one JSON line."""

from __future__ import annotations

import json
import resource
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from generators.catalog import add_template
from generators.seed import Seed
from study.preparation import write_samples
from study.templatefile import read_template

ROUNDS = 9
TARGET = 4000


def main() -> None:
    family = add_template(*read_template(Path(), "past"))
    walls, cpus, count = [], [], 0
    with tempfile.TemporaryDirectory() as place:
        for turn in range(ROUNDS + 1):
            folder = Path(place, str(turn))
            folder.mkdir()
            wall, cpu = time.perf_counter(), time.process_time()
            count = write_samples(family, Seed(bytes(31) + bytes([turn])), folder, None, _quiet)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            shutil.rmtree(folder)
    # The first round parses the file and imports what it needs.
    wall, cpu = median(walls[1:]), median(cpus[1:])
    print(
        json.dumps(
            {
                "benchmark": "templates",
                "samples": count,
                "per_wall_second": round(count / wall),
                "per_cpu_second": round(count / cpu),
                "target": TARGET,
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
        )
    )


def _quiet(what: str, done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    main()

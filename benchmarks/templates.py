"""Samples of the PAST (ten questions, twenty samples each, files on disk) prepared per second by
one process, by the wall clock and per CPU-second: prints one JSON line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from generators.catalog import add_template
from generators.seed import Seed
from generators.templates.family import TemplateFamily
from study.preparation import write_samples
from study.templatefile import read_template

ROUNDS = 9
TARGET = 4000
MEMORY = "/dev/shm"  # a file system that no disk is behind, on Linux


def main() -> None:
    family = add_template(*read_template(Path(), "past"))
    # The first round parses the file and imports what it needs.
    _measure(family, None, 1)
    outcome = {"benchmark": "templates", "target": TARGET, "disk": _measure(family, None, ROUNDS)}
    if os.access(MEMORY, os.W_OK):  # what is left without the disk's own work
        outcome["memory"] = _measure(family, MEMORY, ROUNDS)
    outcome["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    print(json.dumps(outcome))


def _measure(family: TemplateFamily, place: str | None, rounds: int) -> dict[str, int]:
    """Samples a second, in a folder of the usual place for temporary files or of another."""
    walls, cpus, count = [], [], 0
    with tempfile.TemporaryDirectory(dir=place) as root:
        for turn in range(rounds):
            folder = Path(root, str(turn))
            folder.mkdir()
            wall, cpu = time.perf_counter(), time.process_time()
            count = write_samples(family, Seed(bytes(31) + bytes([turn])), folder, None, _quiet)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            shutil.rmtree(folder)
    return {
        "samples": count,
        "per_wall_second": round(count / median(walls)),
        "per_cpu_second": round(count / median(cpus)),
    }


def _quiet(what: str, done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    main()

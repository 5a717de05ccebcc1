"""Samples of the PAST (ten questions, twenty samples each, files on disk) prepared per second by
one process, by the wall clock and per CPU-second: prints one JSON line.

Beside it stands what the file system alone takes: the same folders and files made by a bare loop
in the same run, turn by turn. Nothing is removed before the end, since some file systems step
over the places of what was just removed one by one, and are then measured instead. ``disk`` is
the usual place for temporary files, ``memory`` a place without a disk. ``command`` is one
`dosimeter template prepare` from start to end, in CPU-seconds beyond those of `dosimeter --help`;
``help`` are these, and ``status`` those of `dosimeter status` of the stored demo study.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from generators.seed import Seed
from generators.templates.family import TemplateFamily, template_family
from study.extras.templates.prepare import write_samples
from study.protocol.yaml import read_template

ROUNDS = 15
TARGET = 5000  # samples a CPU-second in memory
COMMANDS = 7
TARGETS = {"command": 0.6, "help": 0.25, "status": 0.35}  # CPU-seconds
_UNCACHED = "PYTHONDONTWRITEBYTECODE"  # would have every command compile all modules again
_MAIN = "import sys; from study.main import main; sys.argv[0] = 'dosimeter'; main()"
MEMORY = "/dev/shm"  # a file system that no disk is behind, on Linux

Tree = tuple[list[str], list[tuple[str, bytes]]]  # folders, and files with their bytes


def main() -> None:
    family = template_family(*read_template(Path(), "past"))
    # The first round parses the file and imports what it needs.
    _measure(family, None, 1)
    outcome: dict[str, object] = {
        "benchmark": "templates",
        "target": TARGET,
        "disk": _measure(family, None, ROUNDS),
    }
    if os.access(MEMORY, os.W_OK):  # what is left without the disk's own work
        outcome["memory"] = _measure(family, MEMORY, ROUNDS)
    outcome |= _measure_commands()
    outcome["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    print(json.dumps(outcome))


def _measure(family: TemplateFamily, place: str | None, rounds: int) -> dict[str, int]:
    """Samples a second, in a folder of the usual place for temporary files or of another."""
    prepared, bare = [], []
    tree: Tree = [], []
    with tempfile.TemporaryDirectory(dir=place) as root:
        for turn in range(rounds):
            folder, beside = Path(root, f"{turn}"), Path(root, f"{turn}-bare")
            folder.mkdir()
            seed = Seed(bytes(31) + bytes([turn]))
            prepared.append(
                _timed(write_samples, family, family.file.questions, seed, folder, None, _quiet)
            )
            tree = _tree_of(folder)
            beside.mkdir()
            bare.append(_timed(_write_bare, beside, tree))
    folders, files = tree
    count = sum(folder.count("/") == 1 for folder in folders)  # sandbox/q101_s1
    return {
        "samples": count,
        **_speeds("", count, prepared),
        **_speeds("bare_", count, bare),
        "bare_files_per_second": round(len(files) / median(wall for wall, _ in bare)),
    }


def _measure_commands() -> dict[str, dict[str, float]]:
    """The median and the least of several rounds, bytecode cached by a first one."""
    rounds = []
    with tempfile.TemporaryDirectory() as root:
        shutil.unpack_archive("tests/data/demo-study.tar.xz", root, filter="data")
        for turn in range(COMMANDS + 1):
            at = ("--seed", f"{turn:064x}", "--out", f"{root}/{turn}")
            usage, status = _cpu("--help"), _cpu("status", "--study", f"{root}/demo-study")
            rounds.append((_cpu("template", "prepare", "past", *at) - usage, usage, status))
    return {
        name: {"cpu_s": round(median(found), 3), "least_cpu_s": min(found), "target_cpu_s": target}
        for (name, target), found in zip(
            TARGETS.items(), zip(*rounds[1:], strict=True), strict=True
        )
    }


def _cpu(*arguments: str) -> float:
    """The CPU-seconds of a command of the program."""
    cached = {name: value for name, value in os.environ.items() if name != _UNCACHED}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _MAIN, *arguments]
    subprocess.run(command, check=True, capture_output=True, env=cached)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)


def _speeds(name: str, count: int, times: list[tuple[float, float]]) -> dict[str, int]:
    """Medians, and the best: other work on the machine only ever slows it."""
    walls, cpus = [wall for wall, _ in times], [cpu for _, cpu in times]
    return {
        f"{name}per_wall_second": round(count / median(walls)),
        f"{name}per_cpu_second": round(count / median(cpus)),
        f"{name}best_per_wall_second": round(count / min(walls)),
        f"{name}best_per_cpu_second": round(count / min(cpus)),
    }


def _timed(work: Callable[..., object], *arguments: object) -> tuple[float, float]:
    """The seconds by the clock and of the CPU that it takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return time.perf_counter() - wall, time.process_time() - cpu


def _tree_of(folder: Path) -> Tree:
    """All that is below a folder, a folder before what it holds."""
    paths = sorted(folder.rglob("*"))
    folders = [str(path.relative_to(folder)) for path in paths if path.is_dir()]
    return folders, [
        (str(path.relative_to(folder)), path.read_bytes()) for path in paths if path.is_file()
    ]


def _write_bare(root: Path, tree: Tree) -> None:
    folders, files = tree
    for folder in folders:
        os.mkdir(f"{root}/{folder}")
    for path, data in files:
        handle = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(handle, data)
        os.close(handle)


def _quiet(what: str, done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    main()

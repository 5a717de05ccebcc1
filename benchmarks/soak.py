"""A sweep with a kill every few seconds, against the same study in one process: prints a JSON line.

    python -m benchmarks.soak [EPISODES] [SECONDS] [SEED]

EPISODES (20,000) scripted episodes in the local sandbox. Every SECONDS (3) one process of the sweep
gets SIGKILL: a worker process, a Ray worker, the coordinator, or the command, each as often. A
command that ends before the wave is closed is run again, the same each time. ``bad_rows`` counts
rows that differ from those of an undisturbed run in more than time and attempts; ``more_attempts``
counts episodes with more than one stored attempt; ``left`` counts processes and temporary files
that are there after all. All three must be 0. Not part of ``make bench``: 20,000 take long.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sweep import make_study
from harness.episodes import EpisodeResult
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.provenance import utc_now
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, context_of
from study.workspace import Study, cells_of, open_study, pinned_image, take_snapshot

EPISODES, SECONDS = 20_000, 3.0
MARK = "DOSIMETER_SOAK"  # in the environment of the sweep's processes
KINDS = ("harness.sweep.worker_process", "ray::Worker", "ray::Coordinator", "study.cli.main")
LONGEST = 120.0  # seconds that a process may take to end after all


@dataclass
class Soak:
    """A sweep under fire. ``kills`` by kind of process, ``commands`` how often it was begun."""

    study: Study
    temporary: Path
    chance: random.Random
    seconds: float
    kills: Counter[str] = field(default_factory=Counter)
    endings: Counter[int] = field(default_factory=Counter)
    lost: int = 0

    def run(self) -> dict[str, Any]:
        """Sweep until the wave is closed; return the last command's output."""
        while True:
            command = self._begin()
            while command.poll() is None:
                self._kill(command)
            out, err = command.communicate()
            self.endings[command.returncode] += 1
            outcome: dict[str, Any] = json.loads(out) if out.strip() else {}
            self.lost += outcome.get("lost", 0)
            if outcome.get("closed"):
                return outcome
            if command.returncode not in (1, -signal.SIGKILL):
                raise SystemExit(f"the sweep ended with {command.returncode}: {err}")

    def left(self) -> int:
        """Count processes and temporary files of the sweep, once they had time to go."""
        deadline = time.monotonic() + LONGEST
        while (processes := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.5)
        files = [each for each in self.temporary.iterdir() if not each.name.endswith(".cells")]
        return sum(map(len, processes.values())) + len(files)

    def _begin(self) -> subprocess.Popen[str]:
        words = ["sweep", "--wave", "0", "--allow-dirty", "--json", "--study"]
        return subprocess.Popen(
            [sys.executable, "-m", "study.cli.main", *words, str(self.study.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                MARK: str(self.temporary),
                "TMPDIR": str(self.temporary),
                "RAY_TMPDIR": "/tmp",  # the paths of its sockets are short
            },
        )

    def _kill(self, command: subprocess.Popen[str]) -> None:
        """Wait, and kill one process. The command itself goes on until its workers are there."""
        with suppress(subprocess.TimeoutExpired):
            command.wait(self.seconds)
            return
        there = self._processes()
        if there.get(KINDS[0]):
            kind = self.chance.choice(sorted(there))
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(there[kind]), signal.SIGKILL)
                self.kills[kind] += 1

    def _processes(self) -> dict[str, list[int]]:
        """The sweep's processes by kind."""
        found: dict[str, list[int]] = {}
        mark = f"{MARK}={self.temporary}\0".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
                kind = next((kind for kind in KINDS if kind in words), None)
                if kind and mark in (folder / "environ").read_bytes():
                    found.setdefault(kind, []).append(int(folder.name))
        return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**32)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        study = make_study(Path(folder, "study"), count, errors=0.3)
        shutil.copytree(study.folder, Path(folder, "quiet"))
        expected = run_quietly(open_study(Path(folder, "quiet")))
        temporary = Path(folder, "tmp")
        temporary.mkdir()
        soak = Soak(study, temporary, random.Random(seed), seconds)
        began = time.monotonic()
        outcome = soak.run()
        spent = time.monotonic() - began
        wave = take_snapshot(study).waves[0]
        rows = table(wave.results)
        bad = sum(rows.get(episode) != row for episode, row in expected.items())
        line = {
            "benchmark": "soak",
            "seed": seed,
            "episodes": len(expected),
            "finished": outcome["closed"]["finished"],
            "seconds": round(spent, 1),
            "kills": dict(soak.kills),
            "exit_codes": {str(code): times for code, times in soak.endings.items()},
            "lost_as_counted": soak.lost,
            "bad_rows": bad + len(rows.keys() - expected.keys()),
            "more_attempts": sum(times > 1 for times in wave.study.attempts.values()),
            "left": soak.left(),
        }
    line["met"] = not (line["bad_rows"] or line["more_attempts"] or line["left"])
    print(json.dumps(line), flush=True)


def run_quietly(study: Study) -> dict[str, dict[str, Any]]:
    """The right table: each episode once in this process."""
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    bench = Workbench.open(context_of(study, manifest, image, 1))
    cells = cells_of(study, manifest)
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda cell: run_cell(cell, bench, utc_now).finished, cells))
    bench.close()
    return table(take_snapshot(study).waves[0].results)


def table(results: Any) -> dict[str, dict[str, Any]]:
    """The rows by episode, without what may differ between two runs."""
    found: dict[str, EpisodeResult] = dict(results)
    return {
        episode: {name: value for name, value in asdict(row).items() if name not in _FREE}
        for episode, row in found.items()
    }


_FREE = ("seconds", "attempts", "attempt")


if __name__ == "__main__":
    main()

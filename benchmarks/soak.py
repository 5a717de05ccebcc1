"""A sweep with a kill every few seconds, against the same study in one process: prints a JSON line.

    python -m benchmarks.soak [EPISODES] [SECONDS] [SEED]

EPISODES (20,000) single turns of a scripted model that no study.yaml can name, by two workers, in a
command that does what ``dosimeter sweep`` does. Every SECONDS (3) one process of the sweep gets
SIGKILL: a worker process, a Ray worker, the coordinator, or the command, each as often. A command
that ends before the wave is closed is run again, the same each time. ``bad_rows`` counts rows that
differ from those of an undisturbed run in more than time and attempts; ``more_attempts`` counts
episodes with more than one stored attempt; ``left`` counts processes and temporary files that are
there after all. All three must be 0. Not part of ``make bench``: 20,000 take long.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.throughput import PIN
from harness.episodes import EpisodeResult
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.provenance import utc_now
from study import pipeline
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, context_of
from study.workspace import Study, cells_of, init_study, open_study, pinned_image, take_snapshot
from study.workspace.setup import register_plan
from study.workspace.study_draw import draw_seeds

EPISODES, SECONDS, INSTANCES = 20_000, 3.0, 200
MARK = "DOSIMETER_SOAK"  # in the environment of the sweep's processes
SWEEP = "--sweep"
KINDS = ("harness.sweep.worker_process", "ray::Worker", "ray::Coordinator", SWEEP)
LONGEST = 120.0  # seconds that a process may take to end after all
STUDY = """\
study: soak
tasks:
  - {family: compute_average, difficulty: easy, mode: single_turn}
seeds_per_arm: HALF
replicates: REPLICATES
models:
  trivial: {provider: scripted, agent: honest, error_rate: 0}
waves:
  - [trivial]
plan: {permutations: 999}
sandbox: {kind: local}
sweep: {workers: 2}
"""


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
            if outcome.get("finished"):
                return outcome
            if command.returncode not in (1, -signal.SIGKILL):
                raise SystemExit(f"the sweep ended with {command.returncode}: {err}")
            if command.returncode == 1:
                print("; ".join(err.splitlines()[-1:]), file=sys.stderr, flush=True)

    def left(self) -> int:
        """Count processes and temporary files of the sweep, once they had time to go."""
        deadline = time.monotonic() + LONGEST
        while (processes := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return sum(map(len, processes.values())) + sum(1 for _ in self.temporary.iterdir())

    def _begin(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.soak", SWEEP, str(self.study.folder)],
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
    if sys.argv[1:2] == [SWEEP]:
        sweep(Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**32)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        study = make_study(Path(folder, "study"), count)
        shutil.copytree(study.folder, Path(folder, "quiet"))
        expected = run_quietly(open_trivial(Path(folder, "quiet")))
        temporary = Path(folder, "tmp")
        temporary.mkdir()
        soak = Soak(study, temporary, random.Random(seed), seconds)
        began = time.monotonic()
        outcome = soak.run()
        spent = time.monotonic() - began
        wave = take_snapshot(study).waves[0]
        rows = table(wave.results)
        bad = sum(rows.get(cell) != row for cell, row in expected.items())
        line = {
            "benchmark": "soak",
            "seed": seed,
            "episodes": len(expected),
            "finished": outcome["finished"],
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


def sweep(folder: Path) -> None:
    """Sweep the wave and print how it ended. Exits with 1 if episodes are owed."""
    outcome = pipeline.sweep(
        open_trivial(folder), SweepRequest(0, allow_dirty=True), lambda progress: None
    )
    closed, progress = outcome.closed, outcome.progress
    lost = 0 if progress is None else progress.lost
    print(json.dumps({"finished": closed and closed.finished, "lost": lost}))
    if closed is None:
        raise SystemExit(1)


def open_trivial(folder: Path) -> Study:
    """The study, with the model that answers at once in place of its own."""
    study = open_study(folder)
    return replace(study, protocol=replace(study.protocol, models=(PIN,)))


def make_study(folder: Path, count: int) -> Study:
    """A study with a wave of that many episodes, drawn and registered without its power checked."""
    replicates = str(-(-count // INSTANCES))
    init_study(folder, STUDY.replace("HALF", str(INSTANCES // 2)).replace("REPLICATES", replicates))
    study = open_study(folder)
    draw_seeds(study, lambda *step: None, utc_now)
    register_plan(study, lambda *step: None, utc_now())
    return study


def run_quietly(study: Study) -> dict[tuple[str, int], EpisodeResult]:
    """The right table: each episode once in this process."""
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    bench = Workbench.open(context_of(study, manifest, image, 1))
    cells = cells_of(study, manifest)
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda cell: run_cell(cell, bench, utc_now).finished, cells))
    bench.close()
    return table(take_snapshot(study).waves[0].results)


def table(results: Any) -> dict[tuple[str, int], EpisodeResult]:
    """The rows by instance and replicate, without what may differ between two runs."""
    found: dict[str, EpisodeResult] = dict(results)
    return {
        (row.instance, row.replicate): replace(
            row,
            episode="",  # is keyed by the run
            grade=replace(row.grade, episode=""),
            seconds=0.0,
            attempt=1,
            attempts=1,
        )
        for row in found.values()
    }


if __name__ == "__main__":
    main()

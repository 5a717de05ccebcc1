"""Time and peak memory of ``dosimeter show`` on attempts of 500 turns and 100 MB: one JSON line.

Two attempts of a study that is drawn and begun. ``pictures``: each turn has 6 KB of prose and
reasoning, two tool results of 4 KB, a picture of 120 KB and the provider's response of 20 KB.
``text``: 100 MB, most of it tool results in ASCII. The command line runs in a process of its own,
so that imports, the key, the ledger and decryption are counted. ``opens`` is the time until the
last line of the attempt's head is there, ``seconds`` until the command ends; ``cpu_seconds`` are
those of the process, ``startup_cpu_seconds`` those of ``show --list`` beforehand. ``peak_mb`` is
the largest resident set.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.episode import Episode, StopReason, Turn
from harness.model import Image, Message, Reply, Role, ToolCall, ToolUse, Usage
from harness.storage import EPISODE_CODEC, attempt_key, hex_of
from registry.ledger.records import record_digest
from registry.provenance import utc_now
from study import pipeline
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest
from study.workspace.setup import init_study, pinned_image
from study.workspace.snapshot import cells_of

TURNS = 500
SECONDS, PEAK_MB = 1.0, 300.0  # the targets
STUDY = """\
study: transcripts
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: 6
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.2}
waves:
  - [honest]
sandbox: {kind: local}
"""
_WORDS = ("galaxy", "redshift", "0.0427", "~/work", "numpy.float64", "NaN", "fit", "-1.25e-3")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="transcripts-") as folder:
        # In a process of its own: a child's peak counts what this one held when it was forked.
        written = [sys.executable, "-m", "benchmarks.transcripts", str(Path(folder, "study"))]
        attempts = json.loads(subprocess.run(written, capture_output=True, check=True).stdout)
        line = {
            "benchmark": "transcripts",
            "turns": TURNS,
            "target": {"seconds": SECONDS, "peak_mb": PEAK_MB},
            **{kind: measure(Path(folder, "study"), *each) for kind, each in attempts.items()},
        }
    print(json.dumps(line))


def write_study(folder: Path) -> dict[str, tuple[str, int]]:
    """Begin a wave and store both attempts; return the episode and the number of bytes of each."""
    init_study(folder, STUDY)
    study = pipeline.open_study(folder)
    pipeline.draw(study, underpowered="a benchmark")
    pipeline.register(study)
    request = SweepRequest(0, allow_dirty=True)
    manifest = begin_wave(study, request, pinned_image(study.protocol), utc_now)
    attempts = {}
    cells = cells_of(study, manifest)[:2]
    kinds = (("pictures", _picture_turn), ("text", _text_turn))
    for cell, (kind, turn) in zip(cells, kinds, strict=True):
        draws = random.Random(1)
        opening = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Task."))
        steps = tuple(turn(draws, number) for number in range(TURNS))
        episode = Episode(
            id=cell.episode,
            instance=cell.instance,
            run=record_digest(manifest),
            model=cell.model,
            replicate=cell.replicate,
            attempt=1,
            opening=opening,
            steps=steps,
            answer=steps[-1].reply.message.text,
            answer_file=None,
            stop=StopReason.ANSWERED,
            usage=Usage(1, 1),
            started=utc_now(),
            seconds=1.0,
            container="c",
        )
        EPISODE_CODEC.write(study.store, attempt_key(cell.episode, 1), episode, study.keys())
        attempts[kind] = (cell.episode, len(EPISODE_CODEC.encode(episode)))
    return attempts


def _picture_turn(draws: random.Random, number: int) -> Turn:
    image = Image("image/png", draws.randbytes(120_000))
    return _turn(draws, number, [_prose(draws, 4_000)] * 2, (image,))


def _text_turn(draws: random.Random, number: int) -> Turn:
    return _turn(draws, number, [_prose(draws, 16_000) for _ in range(10)], ())


def _turn(draws: random.Random, number: int, results: list[str], images: tuple[Image, ...]) -> Turn:
    calls = tuple(
        ToolCall(f"c{number}-{at}", "run_command", json.dumps({"command": _prose(draws, 200)}))
        for at in range(len(results))
    )
    uses = tuple(
        ToolUse(call.id, call.name, Message(Role.TOOL, text, call_id=call.id), 0.1, 0)
        for call, text in zip(calls, results, strict=True)
    )
    uses = (replace(uses[0], result=replace(uses[0].result, images=images)), *uses[1:])
    message = Message(
        Role.ASSISTANT, _prose(draws, 2_000), calls=calls, reasoning=_prose(draws, 4_000)
    )
    reply = Reply(message, Usage(1, 1), "v", raw=draws.randbytes(20_000))
    return Turn(reply, uses, 0.1)


def _prose(draws: random.Random, length: int) -> str:
    words = draws.choices(_WORDS, k=length // 6)
    ends = draws.choices(" " * 8 + "\n", k=len(words))
    return "".join(map("".join, zip(words, ends, strict=True)))


def measure(folder: Path, episode: str, size: int) -> dict[str, Any]:
    """Run ``dosimeter show`` and read all that it prints; modules are compiled beforehand."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder.parent / "pycache")
    command = [sys.executable, "-m", "study.cli.main", "show", hex_of(episode)[:16]]
    command += ["--study", str(folder)]
    listing = [*command[:3], "show", "--list", "--study", str(folder)]
    startup = 0.0
    for _ in range(2):  # the first one compiles the modules
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(listing, env=environment, stdout=subprocess.DEVNULL, check=True)
        startup = _cpu(resource.getrusage(resource.RUSAGE_CHILDREN)) - _cpu(before)
    begun = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        opens, printed = None, 0
        for line in running.stdout:
            printed += len(line)
            if opens is None and line.startswith(b"run "):
                opens = time.perf_counter() - begun
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    peak = used.ru_maxrss / 1024
    return {
        "bytes": size,
        "printed": printed,
        "opens": None if opens is None else round(opens, 2),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(_cpu(used), 2),
        "startup_cpu_seconds": round(startup, 2),
        "peak_mb": round(peak),
        "met": opens is not None and opens <= SECONDS and peak <= PEAK_MB,
    }


def _cpu(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(write_study(Path(sys.argv[1]))))
    else:
        main()

"""Model calls paid for twice over five SIGKILLs of the driver: prints one JSON line.

    python -m benchmarks.resume [KILLS] [SEED]

A study of 40 episodes of four turns each, swept by the command line, six at once, in containers;
the model is an OpenAI-compatible server in this process, whose replies take up to a second. The
driver (``dosimeter sweep``, that process alone) is killed at random moments, KILLS (5) times, and
started again each time; the last sweep ends by itself. Each turn of each attempt has a seed of its
own, which the server is sent and knows it by: ``bought_again`` counts replies that were delivered
for a turn that had one delivered before. A request that waits for its reply when the process dies
is cut off: it is asked again, and counted apart. Needs a Docker engine and the sandbox image.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.openai_stub import Json, call, serve_chat, text, tool_results
from generators.catalog import INSTALLED
from study import pipeline
from study.workspace.setup import init_study
from study.workspace.study import Study

KILLS, TURNS, LONGEST = 5, 4, 1.0
STUDY = """\
study: resume
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: 10
replicates: 2
models:
  bought: {provider: openai, model: mock, base_url: "URL", api_key_env: "", send_seed: true,
           retention: none}
waves:
  - [bought]
plan: {permutations: 999}
sandbox: {kind: docker, runtime: runc}
sweep: {parallel: 6}
"""


@dataclass
class Till:
    """Counts of requests and of delivered replies, by the seed of the turn."""

    chance: random.Random
    solver: str
    asked: Counter[int] = field(default_factory=Counter)
    delivered: Counter[int] = field(default_factory=Counter)

    async def say(self, asked: Json) -> Json:
        """The next message of an honest agent, from the tool results so far."""
        self.asked[asked["seed"]] += 1
        await asyncio.sleep(self.chance.uniform(0, LONGEST))
        seen = tool_results(asked)
        if not seen:
            return call("write_file", path="solve.py", content=self.solver)
        if len(seen) == 1:
            return call("run_command", command="python3 solve.py")
        if len(seen) == 2:
            return call("read_file", path="answer.json")
        return text(f"So it is.\n<answer>\n{seen[2].splitlines()[0]}\n</answer>")

    def on_reply(self, asked: Json, delivered: bool) -> None:
        """Count a reply that was delivered."""
        self.delivered[asked["seed"]] += delivered


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    till = Till(random.Random(seed), INSTALLED.family("compute_average").solver())
    with tempfile.TemporaryDirectory() as folder:
        study = make_study(Path(folder, "study"), f"http://127.0.0.1:{listen(till)}/v1")
        moments = [kill_midway(study, till) for _ in range(kills)]
        closed = finish(start(study))["closed"]
    replies, turns = sum(till.delivered.values()), len(till.delivered)
    asked = sum(till.asked.values())
    line = {
        "benchmark": "resume",
        "seed": seed,
        "kills": kills,
        "killed_after_replies": moments,
        "episodes": closed["owed"],
        "episodes_finished": closed["finished"],
        "turns": turns,
        "turns_expected": closed["owed"] * TURNS,
        "replies_delivered": replies,
        "bought_again": replies - turns,
        "target_bought_again": 0,
        "met": replies == turns,
        "cut_off_before_their_reply": asked - replies,
    }
    print(json.dumps(line))


def make_study(folder: Path, url: str) -> Study:
    init_study(folder, STUDY.replace("URL", url))
    study = pipeline.open_study(folder)
    pipeline.draw(study, underpowered="a benchmark counts requests")
    pipeline.register(study)
    return study


def listen(till: Till) -> int:
    """The port of a server in a thread of its own."""
    ports: list[int] = []
    ready = threading.Event()

    def listening(port: int) -> None:
        ports.append(port)
        ready.set()

    serving = serve_chat(till.say, listening, till.on_reply)
    threading.Thread(target=asyncio.run, args=(serving,), daemon=True).start()
    ready.wait()
    return ports[0]


def start(study: Study) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "study.cli.main",
        "sweep",
        "--wave",
        "0",
        "--allow-dirty",
        "--json",
    ]
    options = ["--allow-unknown-price", "--study", str(study.folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *options], stdout=pipe, stderr=pipe, text=True)


def kill_midway(study: Study, till: Till) -> int:
    """Kill a driver at a random moment, during model calls; returns the number of replies."""
    before = sum(till.asked.values())
    driver = start(study)
    while sum(till.asked.values()) == before:
        if driver.poll() is not None:
            raise SystemExit(f"the sweep ended before it could be killed: {driver.communicate()}")
        time.sleep(0.01)
    time.sleep(till.chance.uniform(0, 5 * LONGEST))
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    return sum(till.delivered.values())


def finish(driver: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = driver.communicate()
    if driver.returncode:
        raise SystemExit(f"the last sweep failed: {errors}")
    outcome: dict[str, Any] = json.loads(out)
    return outcome


if __name__ == "__main__":
    main()

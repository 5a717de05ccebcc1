"""A sweep of trivial episodes until its wave is closed, then its first table, and `verify`: prints
one JSON line.

    python -m benchmarks.throughput [EPISODES] [folder | seaweedfs]

Each step is a process of its own that calls what the command calls. The EPISODES (2,000) are single
turns of compute_average, to which a scripted model that no study.yaml can name
answers at once; each instance is made again from its seed. A step and all that it starts are in a
control group, whose CPU time is read from the kernel, so that other work on the machine is not
counted; it still makes caches cold, so a busy machine gives an upper bound. Needs cgroup v2 and the
right to make a group (root).

``cpu_ms_each`` has the whole sweep, imports included, ``first_s`` and ``close_s`` are seconds on
the clock: to the first episode at work, and from the last one's end to the closed wave. ``derive``
reads the table of results for the first time, ``verify`` has no key. With ``seaweedfs``,
``requests_each`` are the S3 requests that the server counted, by method.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from harness.sweep.leases import Progress
from registry.ledger.records import ModelPin
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.steps.report.look import graded_table
from study.steps.sweep.sweep import SweepRequest
from study.steps.verify.verify import VerifyRequest
from study.workspace.address import open_study
from study.workspace.setup import register_plan
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

EPISODES, INSTANCES = 2_000, 200
STEP = "--step"
PIN = ModelPin("trivial", "scripted", "1", (("agent", '"trivial"'), ("context", "8000")))
STUDY = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
_COUNTED = re.compile(r'^SeaweedFS_s3_request_total\{.*type="(\w+)"\} (\S+)$', re.MULTILINE)


def main() -> None:
    if sys.argv[1:2] == [STEP]:
        step = {"sweep": sweep, "derive": derive, "verify": check}[sys.argv[2]]
        print(json.dumps(step(open_study(Path(sys.argv[3])))))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    kind = sys.argv[2] if len(sys.argv) > 2 else "folder"
    served = counting_seaweedfs() if kind == "seaweedfs" else nullcontext(("", ""))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, served as (uri, metrics):
        study = make_study(Path(folder) / "study", study_text(count, uri))
        before = s3_requests(metrics)
        line = measure(study)
        requests = s3_requests(metrics) - before
    if requests:
        line["requests_each"] = {name: round(n / count, 3) for name, n in requests.most_common()}
    print(json.dumps({"benchmark": "throughput", "store": kind, **line}), flush=True)


def study_text(count: int, uri: str) -> str:
    """study.yaml with a wave of that many cells."""
    replicates = str(-(-count // INSTANCES))
    text = STUDY.replace("HALF", str(INSTANCES // 2)).replace("REPLICATES", replicates)
    return text + (f'store: "{uri}"\n' if uri else "")


def make_study(folder: Path, text: str) -> Study:
    """A study that is drawn and registered without checking its power."""
    init_study(folder, text)
    study = open_study(folder)
    draw_seeds(study, lambda *step: None, lambda: "2026-11-23T12:00:00Z")
    register_plan(study, lambda *step: None, "2026-11-23T12:00:00Z")
    return study


def measure(study: Study) -> dict[str, object]:
    line, swept = run_step("sweep", study)
    owed, cpu = line.pop("episodes"), swept["cpu_s"]
    return {
        "episodes": owed,
        "cpu_ms_each": round(cpu * 1e3 / owed, 2),
        "episodes_per_second": round(owed / swept["seconds"], 1),
        **line,
        **{name: run_step(name, study)[1] for name in ("derive", "verify")},
    }


def run_step(name: str, study: Study) -> tuple[dict[str, float], dict[str, float]]:
    """Run a step; return what it printed, and its seconds on the clock and of CPU time."""
    command = [sys.executable, "-m", "benchmarks.throughput", STEP, name, str(study.folder)]
    started = time.monotonic()
    with control_group() as group:
        out = run_in(group, command)
        spent = cpu_seconds(group)
    return json.loads(out), {"seconds": round(time.monotonic() - started, 1), "cpu_s": spent}


def s3_requests(metrics: str) -> Counter[str]:
    """Requests by method that a server has had so far; a HEAD counts as a GET there."""
    if not metrics:
        return Counter()
    with urllib.request.urlopen(metrics) as answer:
        found = _COUNTED.findall(answer.read().decode())
    counts = Counter[str]()
    for method, number in found:
        counts[method] += int(float(number))
    return counts


def sweep(study: Study) -> dict[str, float]:
    """Sweep the wave and close it; return the number of finished episodes, and when what began."""
    study = replace(study, protocol=replace(study.protocol, models=(PIN,)))
    begun, times = time.monotonic(), dict[bool, float]()

    def look(progress: Progress) -> None:
        if progress.leased or progress.finished:
            times.setdefault(progress.done, time.monotonic())

    outcome = pipeline.sweep(study, SweepRequest(0, allow_dirty=True), look)
    assert outcome.closed is not None
    times.setdefault(True, time.monotonic())
    return {
        "episodes": outcome.closed.finished,
        "first_s": round(min(times.values()) - begun, 1),
        "close_s": round(time.monotonic() - times[True], 1),
    }


def derive(study: Study) -> dict[str, int]:
    """Read the table of results for the first time; return its rows."""
    snapshot = take_snapshot(study)
    return {"rows": len(graded_table(snapshot, [snapshot.waves[0]]))}


def check(study: Study) -> dict[str, int]:
    """Verify as a stranger does, without the key; return the number of problems."""
    os.environ["DOSIMETER_KEY_FILE"] = str(study.folder / "none")
    found = pipeline.verify(open_study(study.folder), VerifyRequest(), lambda *step: None)
    assert found.problems == ()
    return {"problems": 0}


@contextmanager
def control_group() -> Iterator[Path]:
    """A control group that is removed in the end. Exits if there can be none."""
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    if not roots:
        raise SystemExit("no cgroup v2 is mounted: the CPU time of a sweep cannot be read")
    group = Path(roots[0], f"dosimeter-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        raise SystemExit(f"{group}: {error.strerror}: run this as root") from None
    try:
        yield group
    finally:
        (group / "cgroup.kill").write_text("1", encoding="ascii")
        while "populated 1" in (group / "cgroup.events").read_text(encoding="ascii"):
            time.sleep(0.1)
        group.rmdir()


def run_in(group: Path, command: list[str]) -> str:
    """Run a command with all that it starts in a group, and return its output."""
    enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def cpu_seconds(group: Path) -> float:
    """CPU time of a group so far."""
    lines = (group / "cpu.stat").read_text(encoding="ascii").splitlines()
    return round(int(dict(map(str.split, lines))["usage_usec"]) / 1e6, 1)


@contextmanager
def counting_seaweedfs() -> Iterator[tuple[str, str]]:
    """The URI of a store on a SeaweedFS server of its own, and the address of what it counts."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "dosimeter")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "dosimeter-secret")
    script = Path(__file__).with_name("seaweedfs.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script), folder]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            line = _first_line(server)
            at = f"endpoint={line['endpoint']}&region=us-east-1"
            yield f"s3://{line['bucket']}/benchmark?{at}", line["metrics"]
        finally:
            server.communicate()


def _first_line(server: subprocess.Popen[str]) -> dict[str, str]:
    assert server.stdout is not None
    ready: dict[str, str] = json.loads(server.stdout.readline())
    return ready


if __name__ == "__main__":
    main()

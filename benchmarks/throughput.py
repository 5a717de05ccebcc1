"""CPU time of a whole sweep of trivial episodes, over all its processes: prints one JSON line.

    python -m benchmarks.throughput [EPISODES] [folder | seaweedfs] [FAMILY]

A process of its own calls what ``dosimeter sweep`` calls, without Ray, until the wave is closed.
Its EPISODES (2,000) are single turns of a task of FAMILY (compute_average), to which a scripted
model that no study.yaml can name answers at once; each instance is made again from its seed. The
process and all that it starts are in a control group, whose CPU time is read from the kernel, so
that other work on the machine is not counted; it still makes caches cold, so a busy machine gives
an upper bound. Needs cgroup v2 and the right to make a group (root).

``cpu_ms_each`` has everything, imports included. Beside it what each kind of process took, as
last seen by looking twice a second: a process that ends between two looks is in ``rest``, as are
the kernel's own threads. With ``seaweedfs``, ``requests_each`` are the S3 requests that the server
counted, by method.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from registry.ledger.records import ModelPin
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.steps.sweep.sweep import SweepRequest
from study.workspace.address import open_study
from study.workspace.setup import register_plan
from study.workspace.study import Study

EPISODES, INSTANCES, FAMILY = 2_000, 200, "compute_average"
SWEEP = "--sweep"
PIN = ModelPin("trivial", "scripted", "1", (("agent", '"trivial"'), ("context", "8000")))
TARGET_MS = 3.3  # at 20,000 episodes
TICKS = os.sysconf("SC_CLK_TCK")
STUDY = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
_COUNTED = re.compile(r'^SeaweedFS_s3_request_total\{.*type="(\w+)"\} (\S+)$', re.MULTILINE)
KINDS = {  # of processes, by their command lines
    "benchmarks.throughput": "driver",
    "harness.sweep.worker_process": "worker_process",
}


def main() -> None:
    if sys.argv[1:2] == [SWEEP]:
        print(sweep(Path(sys.argv[2])))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    kind = sys.argv[2] if len(sys.argv) > 2 else "folder"
    family = sys.argv[3] if len(sys.argv) > 3 else FAMILY
    served = counting_seaweedfs() if kind == "seaweedfs" else nullcontext(("", ""))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, served as (uri, metrics):
        study = make_study(Path(folder) / "study", count, uri, family)
        before = s3_requests(metrics)
        line = measure(study)
        requests = s3_requests(metrics) - before
    if requests:
        line["requests_each"] = {name: round(n / count, 3) for name, n in requests.most_common()}
    print(
        json.dumps({"benchmark": "throughput", "store": kind, "family": family, **line}), flush=True
    )


def make_study(folder: Path, count: int, uri: str, family: str) -> Study:
    """A study with a wave of that many cells, drawn and registered without checking its power."""
    replicates = str(-(-count // INSTANCES))
    text = STUDY.replace("HALF", str(INSTANCES // 2)).replace("REPLICATES", replicates)
    text = text.replace("FAMILY", family)
    init_study(folder, text + (f'store: "{uri}"\n' if uri else ""))
    study = open_study(folder)
    draw_seeds(study, lambda *step: None, lambda: "2026-11-23T12:00:00Z")
    register_plan(study, lambda *step: None, "2026-11-23T12:00:00Z")
    return study


def measure(study: Study) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.throughput", SWEEP, str(study.folder)]
    started = time.monotonic()
    with control_group() as group, looking(group) as kinds:
        out = run_in(group, command)
        cpu, kernel = cpu_ms(group)
    wall = time.monotonic() - started
    owed = int(out)
    rest = cpu - sum(kinds.values())
    return {
        "episodes": owed,
        "cpu_ms_each": round(cpu / owed, 2),
        "target_cpu_ms": f"{TARGET_MS} at 20,000",
        "cpu_ms_each_in_kernel": round(kernel / owed, 2),
        "by_process": {
            **{name: round(spent / owed, 2) for name, spent in kinds.items()},
            "rest": round(rest / owed, 2),
        },
        "seconds": round(wall, 1),
        "episodes_per_second": round(owed / wall, 1),
    }


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


def sweep(folder: Path) -> int:
    """Sweep a study's wave and close it; return the number of finished episodes."""
    study = open_study(folder)
    study = replace(study, protocol=replace(study.protocol, models=(PIN,)))
    outcome = pipeline.sweep(study, SweepRequest(0, allow_dirty=True), lambda progress: None)
    assert outcome.closed is not None
    return outcome.closed.finished


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


def cpu_ms(group: Path) -> tuple[float, float]:
    """CPU time of a group so far, and the kernel's share of it, in ms."""
    lines = (group / "cpu.stat").read_text(encoding="ascii").splitlines()
    stat = {name: int(value) / 1e3 for name, value in map(str.split, lines)}
    return stat["usage_usec"], stat["system_usec"]


@contextmanager
def looking(group: Path) -> Iterator[dict[str, float]]:
    """Yield the CPU time in ms of the processes of a group by their kind, complete in the end."""
    kinds: dict[str, float] = dict.fromkeys([*KINDS.values(), "other"], 0.0)
    ended = threading.Event()
    seen: dict[str, tuple[str, float]] = {}

    def look() -> None:
        while not ended.wait(0.5):
            for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
                with suppress(OSError):
                    seen[pid] = kind_of(pid), process_ms(pid)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield kinds
    finally:
        ended.set()
        thread.join()
        for kind, spent in seen.values():
            kinds[kind] += spent


def kind_of(pid: str) -> str:
    words = Path("/proc", pid, "cmdline").read_text(encoding="utf-8", errors="replace")
    return next((kind for part, kind in KINDS.items() if part in words), "other")


def process_ms(pid: str) -> float:
    """CPU time of a process so far in ms, all threads, without its children."""
    stat = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1e3 / TICKS


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

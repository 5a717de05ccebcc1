"""What names, sizes, times and counts of a closed study's objects say of arm and score: prints one
JSON line.

    python -m benchmarks.side_channels [STUDY]

STUDY is the folder of a study whose waves are closed, with its key and a folder as its store.
Without one, a study is made here: two tasks, a clean agent and one that has read the release, 2,112
episodes run in the local sandbox by eight threads of this process, leased, stored and reported as
in a worker process. It takes some minutes.

For attempts and results each, and for arm and score each, the area under the curve (AUC) of every
feature, folded to .5 and above: the name as a number, the ciphertext's size, its time of
modification, the time since the object before it, and the number of objects of the episode. The arm
is asked of all episodes, the score (above its median or not) of each model within each stratum, of
which the largest area is shown among those with 200 objects of either kind, and the mean of all.
Beside them half the width of a 95 % interval of an AUC of .5, which the largest of four areas
leaves by chance in one run of five; and the number of objects whose ciphertext is larger than what
it is filled up to.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.episode import Cell
from harness.storage import ATTEMPTS, RESULTS, hex_of
from harness.sweep import RunContext, Schedule, StorePause
from harness.sweep.epochs import WorkerClaims
from harness.sweep.governor import LeaseOutcome
from harness.sweep.leases import LeaseBook, LeaseRules
from harness.sweep.purchases import CallCounts, CallLimit
from harness.sweep.workbench import Workbench
from harness.sweep.worker_process import LeaseClient, Renewal, pull
from registry.provenance import utc_now
from registry.result_row import Arm
from registry.stores.folder import FolderStore
from study import pipeline
from study.sweeps.manifests import begin_wave
from study.sweeps.sweep import SweepRequest, close_wave, context_of
from study.workspace import Study, cells_of, init_study, open_study, pinned_image, take_snapshot

FEATURES = ("name", "size", "time", "since", "count")
LEAST = 200  # objects with either label
THREADS = 8
TARGET = "0.50 ± 0.03 on 4,000 objects"
STUDY = """\
study: channels
tasks:
  - {family: count_circles, difficulty: medium}
  - {family: compute_average, difficulty: medium}
seeds_per_arm: 24
replicates: 11
models:
  clean: {provider: scripted, agent: honest, error_rate: 0.5}
  spiked: {provider: scripted, agent: spiked, error_rate: 0.7, release: release}
waves:
  - [clean]
  - [spiked]
plan: {permutations: 999}
sandbox: {kind: local}
"""


class Seen(NamedTuple):
    """What the store shows of an object, and what it is."""

    features: dict[str, float]
    public: bool
    high: bool
    group: tuple[str, str]  # model and stratum


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = open_study(Path(sys.argv[1])) if sys.argv[1:] else run(Path(folder) / "study")
        line: dict[str, object] = {"benchmark": "side_channels", "target": TARGET}
        for kind in (ATTEMPTS, RESULTS):
            line |= measure(kind.rstrip("/"), list(objects(study, kind)))
        print(json.dumps(line))


def run(folder: Path) -> Study:
    """A study with two closed waves, the second by an agent that has read the release."""
    init_study(folder, STUDY)
    study = open_study(folder)
    pipeline.draw(study, underpowered="a benchmark")
    pipeline.register(study)
    for wave in (0, 1):
        image = pinned_image(study.protocol)
        manifest = begin_wave(study, SweepRequest(wave, allow_dirty=True), image, utc_now)
        cells, context = cells_of(study, manifest), context_of(study, manifest, image, THREADS)
        work(context, cells)
        close_wave(study, context, manifest, cells, bytes([1]) * len(cells), utc_now)
        if wave == 0:
            pipeline.publish(study, False, lambda *step: None)
    return study


def work(context: RunContext, cells: Schedule) -> None:
    """Run all cells as a worker process does, in this process."""
    name = f"{context.epochs.open():06d}-1"
    bench = Workbench.open(replace(context, run_identity=""), holds=True)
    claims = WorkerClaims(context.epochs, name, bench.purchases.stopped)
    assert pull(Leases(context, cells), bench, THREADS, claims, Random().shuffle) == len(cells)
    bench.close()


class Leases(LeaseClient):
    """What a worker process asks its coordinator, without a connection."""

    def __init__(self, context: RunContext, cells: Schedule) -> None:
        self._context, self._book = context, LeaseBook(cells, bytes(len(cells)), LeaseRules(60.0))

    def lease(self, capacity: int, holding: frozenset[str]) -> tuple[tuple[Cell, ...], bool]:
        cells = self._book.lease("", capacity, time.monotonic(), holding)
        return tuple(map(self._context.lease, cells)), not cells and self._book.over()

    def report(self, outcomes: tuple[LeaseOutcome, ...]) -> None:
        self._book.report("", outcomes, time.monotonic())

    def hear(
        self, holding: frozenset[str], pause: StorePause | None, calls: Mapping[str, CallCounts]
    ) -> tuple[Renewal, Mapping[str, CallLimit] | None]:
        return Renewal.RENEWED, None

    def attend(self) -> None:
        """Nothing can break."""


def objects(study: Study, folder: str) -> Iterator[Seen]:
    """The objects of a folder of closed waves."""
    assert isinstance(study.store, FolderStore)
    snapshot = take_snapshot(study)
    arms = {entry.instance: entry.arm for entry in snapshot.entries()}
    results = {
        hex_of(name): result
        for wave in snapshot.closed_waves
        for name, result in wave.results.items()
    }
    by_group: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in results.values():
        by_group[result.model, result.stratum].append(result.score or 0.0)
    middle = {group: statistics.median(scores) for group, scores in by_group.items()}
    counts = Counter(key.rpartition("/")[2][:64] for key in study.store.list())
    stats = {key: (study.store.path / key).stat() for key in study.store.list(folder)}
    before = None
    for key, stat in sorted(stats.items(), key=lambda item: item[1].st_mtime_ns):
        name = key.rpartition("/")[2][:64]
        since = stat.st_mtime_ns - before if before is not None else 0
        before = stat.st_mtime_ns
        if name not in results:
            continue
        result = results[name]
        group, score = (result.model, result.stratum), result.score or 0.0
        high = score > middle[group] or (score == middle[group] == 1.0)
        values = (int(name[:12], 16), stat.st_size, stat.st_mtime_ns, since, counts[name])
        features = dict(zip(FEATURES, map(float, values), strict=True))
        yield Seen(features, arms[result.instance] is Arm.PUBLIC, high, group)


def measure(kind: str, seen: Sequence[Seen]) -> dict[str, object]:
    """The areas of each feature for one kind of object."""
    groups: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for each in seen:
        groups[each.group].append(each)
    large = [
        group
        for group in groups.values()
        if min(n := sum(each.high for each in group), len(group) - n) >= LEAST
    ]
    arm, arm_width = areas(seen, [each.public for each in seen])
    found: dict[str, object] = {
        f"{kind}_objects": len(seen),
        f"{kind}_arm": {**arm, "half_width": arm_width},
    }
    if large:
        scored = [areas(group, [each.high for each in group]) for group in large]
        most = {name: max(area[name] for area, _ in scored) for name in FEATURES}
        found[f"{kind}_score"] = {**most, "half_width": max(width for _, width in scored)}
        found[f"{kind}_score_groups"] = [len(group) for group in large]
        found[f"{kind}_score_of_all"] = pooled(large)
    sizes = [each.features["size"] for each in seen]
    found[f"{kind}_larger"] = sum(size > 1.5 * min(sizes) for size in sizes)
    return found


def pooled(groups: Sequence[Sequence[Seen]]) -> dict[str, float]:
    """The mean of the groups' areas for the score, weighted by their precision, and half its
    interval."""
    weights, signed = [], []
    for group in groups:
        labels = [each.high for each in group]
        n, ones = len(labels), sum(labels)
        weights.append(12 * ones * (n - ones) / (n + 1))
        signed.append(
            {name: _signed_area([s.features[name] for s in group], labels) for name in FEATURES}
        )
    total = sum(weights)
    mean = {
        name: sum(w * area[name] for w, area in zip(weights, signed, strict=True)) / total
        for name in FEATURES
    }
    folded = {name: round(max(area, 1 - area), 3) for name, area in mean.items()}
    return {**folded, "half_width": round(1.96 / total**0.5, 3)}


def areas(seen: Sequence[Seen], labels: Sequence[bool]) -> tuple[dict[str, float], float]:
    """The area under the curve of each feature, and half the width of the interval around .5."""
    ones, n = sum(labels), len(labels)
    zeros = n - ones
    width = 1.96 * ((n + 1) / (12 * ones * zeros)) ** 0.5
    return {name: _area([s.features[name] for s in seen], labels) for name in FEATURES}, round(
        width, 3
    )


def _area(values: Sequence[float], labels: Sequence[bool]) -> float:
    area = _signed_area(values, labels)
    return round(max(area, 1 - area), 3)


def _signed_area(values: Sequence[float], labels: Sequence[bool]) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(values)
    ones = sum(labels)
    total = sum(rank for rank, label in zip(ranks, labels, strict=True) if label)
    return float((total - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


if __name__ == "__main__":
    main()

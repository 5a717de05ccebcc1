"""Processor time of a pool of given items: read and checked, its near-duplicates found, drawn,
sealed and committed to; and the most memory. Then of a wave of 10,000 of them that was answered
elsewhere: its log of JSON lines imported, graded, stored and closed. One JSON line."""

from __future__ import annotations

import csv
import json
import random
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from time import process_time

from benchmarks.throughput import make_study
from generators.catalog import INSTALLED
from generators.items.pool import Columns, near_duplicates
from registry.draws.seeds import SystemEntropy, draw
from registry.provenance import utc_now
from registry.sealing import SealedSeeds, commitments_of, commitments_root, new_identity, seal_seeds
from study.extras.tables.elsewhere import ExportRequest, export_tasks, import_wave
from study.protocol.pool import PoolSource, read_pool
from study.steps.register.draw import identify_in
from study.steps.sweep.sweep import SweepRequest

WORDS, IMPORTED, ANSWER = 4000, 10_000, '<answer>\n{"answer": "A"}\n</answer>'
STUDY = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")


def main(items: int = 100_000) -> None:
    """Measure with questions of 40 words and four choices."""
    drawn = random.Random(1)
    words = [f"{chr(97 + n % 26)}{n}" for n in range(WORDS)]
    path = Path(tempfile.mkdtemp()) / "pool.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "a", "b", "c", "d", "key"])
        for _ in range(items):
            rows.writerow([" ".join(drawn.choices(words, k=40)), *drawn.sample(words, 4), "b"])
    columns = Columns(
        name="pool", prompt="question", answer="key", score="choice", choices=tuple("abcd")
    )
    times, begun = {}, process_time()
    groups = read_pool(PoolSource(path, columns, "never", ("pool",)))
    times["read_s"], begun = process_time() - begun, process_time()
    pairs = len(list(near_duplicates(groups)))
    times["near_duplicates_s"], begun = process_time() - begun, process_time()
    pool = {"items/pool": [group.data for group in groups]}
    made = draw(
        [("items", "1", "pool")], items // 2, SystemEntropy(), identify_in(INSTALLED), pools=pool
    )
    sealed = seal_seeds(SealedSeeds(made.seeds, made.secret), [new_identity()[1]])
    commitments_root(commitments_of(made.seeds))
    times["draw_seal_commit_s"] = process_time() - begun
    times["import_s"] = imported(path, min(items, IMPORTED))
    shutil.rmtree(path.parent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    sizes = {"sealed_mb": len(sealed) // 1_000_000, "memory_mb": memory}
    print(json.dumps({"items": items, "pairs": pairs} | sizes
                     | {name: round(value, 1) for name, value in times.items()}))  # fmt: skip


def imported(pool: Path, count: int) -> float:
    """Seconds to import a wave of a model that gives the first choice."""
    rows = pool.read_text(encoding="utf-8").splitlines()[: count + 1]
    pool.write_text("\n".join(rows), encoding="utf-8")
    study = make_study(pool.parent / "study", STUDY.replace("HALF", str(count // 2)))
    export_tasks(study, ExportRequest(0, "jsonl", pool.parent / "out", allow_dirty=True), utc_now)
    given, log = pool.parent / "out" / "tasks.jsonl", pool.parent / "log.jsonl"
    ids = (json.loads(line)["id"] for line in given.read_text(encoding="utf-8").splitlines())
    log.write_text("\n".join(json.dumps({"id": each, "answer": ANSWER}) for each in ids))
    begun = process_time()
    import_wave(study, SweepRequest(0, allow_dirty=True), "jsonl", [f"old={log}"], utc_now)
    return process_time() - begun


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Processor time of a pool of given items: read and checked, its near-duplicates found, drawn,
sealed and committed to; and the most memory. One JSON line."""

from __future__ import annotations

import csv
import json
import random
import resource
import sys
import tempfile
from pathlib import Path
from time import process_time

from generators.catalog import INSTALLED
from generators.items.pool import Columns, near_duplicates
from registry.draws.seeds import SystemEntropy, draw
from registry.sealing import SealedSeeds, commitments_of, commitments_root, new_identity, seal_seeds
from study.protocol.pool import PoolSource, read_pool
from study.steps.register.draw import identify_in

WORDS = 4000


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
    path.unlink()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    sizes = {"sealed_mb": len(sealed) // 1_000_000, "memory_mb": memory}
    print(json.dumps({"items": items, "pairs": pairs} | sizes
                     | {name: round(value, 1) for name, value in times.items()}))  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

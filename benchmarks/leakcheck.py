"""Leak check: bytes searched a second, by kind of content, for the needles of a drawn panel.

python -m benchmarks.leakcheck [SEEDS [MEGABYTES]] prints one JSON line. SEEDS are those of an arm
in each of two strata (128 unless given), MEGABYTES those of each kind (16 unless given). Rates are
of the processor's time, so that a busy machine does not count.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import resource
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from generators.catalog import INSTALLED
from generators.seed import Seed
from publish.leakcheck.check import leaks_in, release_needles
from registry.result_row import Arm
from registry.sealing import DrawnInstance

STRATA = (("count_circles", "easy"), ("compute_average", "medium"))
WORDS = ("the", "model", "reads", "a", "table", "of", "numbers", "and", "writes", "its", "sum")


def main(seeds: int = 128, megabytes: int = 16) -> None:
    started = time.process_time()
    needles = release_needles(drawn(seeds), INSTALLED.family)
    made = time.process_time() - started
    rates, total, spent = {}, 0, 0.0
    for name, data in contents(megabytes << 20):
        started = time.process_time()
        leaks = leaks_in(name, data, needles)
        seconds = time.process_time() - started
        if leaks:
            raise SystemExit(f"{name}: a false alarm: {leaks[0]}")
        rates[name] = round(len(data) / seconds / 1e6, 1)
        total, spent = total + len(data), spent + seconds
    print(
        json.dumps(
            {
                "benchmark": "leakcheck",
                "private_instances": seeds * len(STRATA),
                "needles": len(needles),
                "needles_s": round(made, 1),
                "mb_per_s": rates,
                "all_mb_per_s": round(total / spent / 1e6, 1),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        )
    )


def drawn(seeds: int) -> tuple[DrawnInstance, ...]:
    """Return entries of both arms in turn."""
    root = Seed(hashlib.sha256(b"dosimeter/benchmark/leakcheck").digest())
    entries = []
    for name, difficulty in STRATA:
        family = INSTALLED.family(name)
        for index in range(2 * seeds):
            seed = root.child(name, index)
            entries.append(
                DrawnInstance(
                    family.generate(difficulty, seed).id,
                    family.name,
                    family.version,
                    difficulty,
                    seed.hex,
                    seed.child("nonce").hex,
                    Arm.PUBLIC if index % 2 else Arm.PRIVATE,
                )
            )
    return tuple(entries)


def contents(size: int) -> Iterator[tuple[str, bytes]]:
    """Yield kinds of content with about this many bytes of each."""
    rng = random.Random(16)
    noise = rng.randbytes(size)
    prose = b"".join(f"{' '.join(rng.choices(WORDS, k=12))}.\n".encode() for _ in range(size // 60))
    lines = b"".join(
        json.dumps(
            {"time": n, "level": "info", "message": " ".join(rng.choices(WORDS, k=30))}
        ).encode()
        + b"\n"
        for n in range(size // 190)
    )
    numbers = b"".join(f"{n},{rng.random()!r}\n".encode() for n in range(size // 27))
    table = pa.table({"data": [noise[at : at + 50_000] for at in range(0, size, 50_000)]})
    target = io.BytesIO()
    pq.write_table(table, target)
    yield "noise", noise
    yield "prose", prose
    yield "json_lines", lines
    yield "csv", numbers
    yield "parquet_of_files", target.getvalue()
    yield "gzip", gzip.compress(noise, 1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

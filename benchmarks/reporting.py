"""A table of a million rows analysed, and a whole report of a hundred thousand: one JSON line.

Both have 8 looks of 24 models over 12 strata, the preset standard-v1 with all of its sensitivity
analyses, and start from a Parquet file in a process of their own, so that reading, imports and peak
memory are counted. ``report`` writes the page, its tables and figures too. ``seconds`` are on the
clock, ``cpu_seconds`` of all threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

LOOKS, MODELS, STRATA = 8, 24, 12
TABLE_ROWS, REPORT_ROWS = 1_000_000, 100_000
SECONDS = 60.0  # the target of both

_RUN = """
import json, resource, sys, time
from pathlib import Path
start, cpu = time.perf_counter(), time.process_time()
from study.extras.tables.external_table import analyze_table
report = analyze_table(Path(sys.argv[1]), now="2026-01-01T00:00:00Z", allocation="random")
if len(sys.argv) > 2:
    from analysis.report.write import write_report
    write_report(Path(sys.argv[2]), report)
print(json.dumps({
    "seconds": round(time.perf_counter() - start, 1),
    "cpu_seconds": round(time.process_time() - cpu, 1),
    "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    "verdicts": len(report.verdicts),
}))
"""


def main() -> None:
    line: dict[str, Any] = {
        "benchmark": "reporting",
        "looks": LOOKS,
        "models": MODELS,
        "strata": STRATA,
        "target_seconds": SECONDS,
    }
    with tempfile.TemporaryDirectory(prefix="reporting-") as folder:
        place = Path(folder)
        line["table"] = measure(place, TABLE_ROWS, None)
        line["report"] = measure(place, REPORT_ROWS, place / "report")
    line["met"] = {name: line[name]["seconds"] <= SECONDS for name in ("table", "report")}
    print(json.dumps(line))


def measure(place: Path, rows: int, out: Path | None) -> dict[str, Any]:
    path = place / f"{rows}.parquet"
    written = write_rows(path, rows)
    arguments = [str(path), *([str(out)] if out else [])]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=True
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"rows": written, **figures}


def write_rows(path: Path, wanted: int) -> int:
    """Write scores of 20 criteria without any gap; about ``wanted`` rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = max(1, round(wanted / (LOOKS * MODELS * STRATA * 2)))
    stratum = np.repeat(np.arange(STRATA), 2 * seeds)
    number = np.tile(np.arange(2 * seeds), STRATA)
    n, rng = len(stratum), np.random.default_rng(1)
    passed = rng.binomial(20, 0.6, (LOOKS * MODELS, n)).reshape(-1)
    model = np.repeat([f"model-{k}" for k in range(LOOKS * MODELS)], n)
    seed_columns: dict[str, Any] = {
        "stratum": [f"task-{s}/easy" for s in stratum],
        "instance": [f"i-{s}-{k}" for s, k in zip(stratum, number, strict=True)],
        "arm": np.where(number % 2 == 0, "public", "private"),
    }
    columns = {
        name: pa.array(np.tile(values, LOOKS * MODELS)) for name, values in seed_columns.items()
    }
    columns |= {
        "look": pa.array(np.repeat(np.arange(LOOKS), MODELS * n)),
        "model": pa.array(model),
        "score": pa.array(passed / 20),
        "passed": pa.array(passed),
        "total": pa.array(np.full(len(passed), 20)),
    }
    pq.write_table(pa.table(columns), path)
    return len(passed)


if __name__ == "__main__":
    main()

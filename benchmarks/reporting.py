"""A table of a million rows analysed, and a whole report of a hundred thousand: one JSON line.

Both have 8 looks of 24 models over 12 strata, the preset standard-v1 with all of its sensitivity
analyses, and start from a Parquet file in a process of their own, so that reading, imports and peak
memory are counted. ``report`` writes the page, its tables and figures too. ``seconds`` are on the
clock, ``cpu_seconds`` of all threads.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from analysis.data.table import ResultTable, make_table
from analysis.plan.look import analyse
from analysis.plan.presets import standard_plan
from analysis.report.report import build_table_report
from analysis.report.write import write_report
from registry.ledger.records import Plan
from registry.result_row import Arm, ResultRow, Status

LOOKS, MODELS, STRATA = 8, 24, 12
NEW, ARM, OLD = 3, 128, 4  # of the simulated study: new models a look, instances, early models
TABLE_ROWS, REPORT_ROWS = 1_000_000, 100_000
SECONDS = 60.0  # the target of both

_RUN = """
import json, resource, sys, time
from pathlib import Path
start, cpu = time.perf_counter(), time.process_time()
from study.reporting.external_table import analyze_table
report = analyze_table(Path(sys.argv[1]), now="2026-01-01T00:00:00Z")
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


def report_simulated_study() -> dict[str, Any]:
    """Analyse a simulated study in this process and write its report: 4 models before publication,
    then 8 looks with 3 new models and a frozen one, 12 strata of 128 instances an arm: 110,592
    rows."""
    plan, table = _simulated_study()
    begun, cpu = time.perf_counter(), time.process_time()
    analysis = analyse(plan, table, "sha256:" + "be" * 32)
    analysed = time.perf_counter()
    made = build_table_report("benchmark", table, analysis, (), "2026-01-01T00:00:00Z")
    with tempfile.TemporaryDirectory(prefix="dosimeter-report-") as folder:
        write_report(Path(folder), made)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    seconds = time.perf_counter() - begun
    return {
        "rows": len(table),
        "looks": LOOKS,
        "models": LOOKS * NEW,
        "seconds": round(seconds, 2),
        "analysis_seconds": round(analysed - begun, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "bytes": size,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "met": seconds <= SECONDS,
    }


def _simulated_study() -> tuple[Plan, ResultTable]:
    strata = tuple(f"task-{h:02d}/medium" for h in range(STRATA))
    old = tuple(f"old-{m}" for m in range(OLD))
    waves = [(0, old)]
    waves += [(t, (old[0], *(f"model-{t}-{m}" for m in range(NEW)))) for t in range(1, LOOKS + 1)]
    rng = np.random.default_rng(8)
    rows = [
        _result_row(wave, model, stratum, number, rng)
        for wave, models in waves
        for stratum in strata
        for model in models
        for number in range(2 * ARM)
    ]
    counted = ("score", "fraction")
    plan = standard_plan(
        strata, ARM, pre_exposure=old, frozen=old[:1], looks=LOOKS, outcomes=counted
    )
    return plan, make_table(rows)


def _result_row(
    wave: int, model: str, stratum: str, number: int, rng: np.random.Generator
) -> ResultRow:
    family, _, difficulty = stratum.partition("/")
    passed = int(rng.binomial(20, 0.6))
    return ResultRow(
        wave=wave,
        model=model,
        arm=Arm.PUBLIC if number % 2 else Arm.PRIVATE,
        stratum=stratum,
        family=family,
        difficulty=difficulty,
        instance=f"{stratum}#{number}",
        replicate=0,
        grader="deterministic",
        status=Status.SCORED,
        score=passed / 20,
        passed=passed,
        total=20,
        score_sr=passed / 20,
        score_dh=None,
        score_im=None,
        score_if=None,
        stop_reason="answered",
        error_class="",
        limits_hit="",
        turns=3,
        tool_calls=2,
        input_tokens=1000,
        output_tokens=100,
        cost_usd=0.01,
        seconds=1.0,
        attempts=1,
        served_version="v1",
    )


if __name__ == "__main__":
    main()

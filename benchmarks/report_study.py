"""The time of a whole report, for benchmarks/analysis.py: 8 looks, 24 models, 10^5 rows."""

from __future__ import annotations

import resource
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

LOOKS, NEW, STRATA, ARM, OLD = 8, 3, 12, 128, 4
REPORT_SECONDS = 60.0  # the target


def report() -> dict[str, Any]:
    """Analyse a simulated study and write its report: 4 models before publication, then 8 looks
    with 3 new models and a frozen one, 12 strata of 128 instances an arm: 110,592 rows."""
    plan, table = _study()
    begun, cpu = time.perf_counter(), time.process_time()
    found = analyse(plan, table, "sha256:" + "be" * 32)
    analysed = time.perf_counter()
    made = build_table_report("benchmark", table, found, (), "2026-01-01T00:00:00Z")
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
        "met": seconds <= REPORT_SECONDS,
    }


def _study() -> tuple[Plan, ResultTable]:
    strata = tuple(f"task-{h:02d}/medium" for h in range(STRATA))
    old = tuple(f"old-{m}" for m in range(OLD))
    waves = [(0, old)]
    waves += [(t, (old[0], *(f"model-{t}-{m}" for m in range(NEW)))) for t in range(1, LOOKS + 1)]
    rng = np.random.default_rng(8)
    rows = [
        _row(wave, model, stratum, number, rng)
        for wave, models in waves
        for stratum in strata
        for model in models
        for number in range(2 * ARM)
    ]
    plan = standard_plan(
        strata, ARM, pre_exposure=old, frozen=old[:1], looks=LOOKS, onset_alpha=0.005
    )
    return plan, make_table(rows)


def _row(wave: int, model: str, stratum: str, number: int, rng: np.random.Generator) -> ResultRow:
    family, _, difficulty = stratum.partition("/")
    passed = int(rng.binomial(20, 0.6))
    return ResultRow(
        wave=wave, model=model, arm=Arm.PUBLIC if number % 2 else Arm.PRIVATE, stratum=stratum,
        family=family, difficulty=difficulty, instance=f"{stratum}#{number}", replicate=0,
        grader="deterministic", status=Status.SCORED, score=passed / 20, passed=passed, total=20,
        score_sr=passed / 20, score_dh=None, score_im=None, score_if=None, stop_reason="answered",
        error_class="", limits_hit="", turns=3, tool_calls=2, input_tokens=1000,
        output_tokens=100, cost_usd=0.01, seconds=1.0, attempts=1, served_version="v1",
    )  # fmt: skip

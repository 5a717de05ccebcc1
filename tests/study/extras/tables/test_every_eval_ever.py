"""Logs by the real packages, and what Every Eval Ever's own converters made of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from registry.result_row import ResultRow
from tests.study.extras.tables.test_harness_logs import eee_row, imported, run, write_lines

# Logs by the real packages, and what Every Eval Ever makes of them: tests/data/README.md
EEE = Path(__file__).parents[3] / "data" / "eee"


def runs_of(rows: list[ResultRow]) -> Counter[tuple[object, ...]]:
    """Each run by its sample's id, as the harness was given it, with grader and score."""
    return Counter(
        (row.instance.split("/")[-1].split("-")[0], row.replicate, row.grader, row.score)
        for row in rows
    )


@pytest.mark.parametrize(
    ("kind", "log", "converted", "count"),
    [
        ("inspect", "one_scorer.eval", "one_scorer.jsonl", 12 * 2),
        ("inspect", "two_scorers.eval", "two_scorers.jsonl", 8 * 2),
        ("lm-eval", "samples_sums_2026-11-29T11-43-38.410862.jsonl", "sums.jsonl", 20 * 2),
    ],
)
def test_a_converted_log_has_the_runs_and_scores_of_the_log(
    tmp_path: Path, kind: str, log: str, converted: str, count: int
) -> None:
    (tmp_path / "twice").mkdir()
    for name in ("one.jsonl", "two.jsonl"):
        shutil.copy(EEE / converted, tmp_path / "twice" / name)
    for place in (EEE / converted, tmp_path / "twice"):
        (tmp_path / "rows.parquet").unlink(missing_ok=True)
        rows = imported(tmp_path, "eee", place)
        (tmp_path / "rows.parquet").unlink()
        assert runs_of(rows) == runs_of(imported(tmp_path, kind, EEE / log))
        assert len(rows) == count
        assert max(runs_of(rows).values()) == 1
    assert {row.score for row in rows} >= {0.0, 1.0}


def test_two_scores_of_one_run_by_a_scorer_are_refused(tmp_path: Path) -> None:
    lines = [
        eee_row(n, evaluation_result_id=f"exact:{name}")
        | {"sample_id": "a", "evaluation": {"score": n}}
        for n, name in enumerate(("accuracy", "mean"))
    ]
    log = write_lines(tmp_path / "log.jsonl", lines)
    code, _, error = run("eee", log, "--arm", "public", "--out", tmp_path / "rows.parquet")
    assert (code, error.count("\n")) == (2, 1)
    assert "log.jsonl:2: a second score by exact of one run" in error

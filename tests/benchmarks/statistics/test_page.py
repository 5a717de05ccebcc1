"""docs/statistics.md is what its stored results say, and names the command that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.statistics.jobs import all_jobs
from benchmarks.statistics.page import COMMAND, missed_targets, render

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((DOCS / "statistics.json").read_text(encoding="utf-8"))
    return stored


def test_the_page_is_rendered_from_the_stored_results(record: dict[str, Any]) -> None:
    page = (DOCS / "statistics.md").read_text(encoding="utf-8")
    assert page == render(record["jobs"])
    assert COMMAND in page.replace("\n", " ")
    assert record["made_by"] == COMMAND


def test_every_cell_was_simulated_in_full(record: dict[str, Any]) -> None:
    jobs = all_jobs()
    assert list(record["jobs"]) == list(jobs)
    assert {key: job["of"] for key, job in record["jobs"].items()} == {
        key: job.studies(500) for key, job in jobs.items()
    }
    assert "…" not in render(record["jobs"])
    assert "| … |" in render({})  # what is not there is seen


def test_the_plan_keeps_its_promises_in_the_stored_results(record: dict[str, Any]) -> None:
    assert missed_targets(record["jobs"]) == []

"""docs/statistics.md is what its stored results say, and names the command that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.statistics.jobs import all_jobs
from benchmarks.statistics.page import COMMAND, Figure, missed_targets, render, tables

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


def test_every_simulation_is_shown() -> None:
    shown = {figure.job for table in tables() for figure in table.figures}
    assert shown == set(all_jobs())


def test_a_figure_beyond_its_target_is_seen() -> None:
    def stored(rate: float) -> dict[str, Any]:
        return {"job": {"of": 1000, "cells": {"plan": (rate, 0.005)}}}

    assert Figure("job", "plan", most=0.025).missed(stored(0.045))
    assert not Figure("job", "plan", most=0.025).missed(stored(0.035))
    assert not Figure("job", "plan", most=0.025).missed(stored(0.0))
    assert Figure("job", "plan", about=0.025).missed(stored(0.0))
    assert Figure("job", "plan", least=0.95).missed(stored(0.92))
    assert not Figure("job", "plan", least=0.95).missed(stored(0.97))
    for rate, missed in ((0.92, False), (0.88, True)):
        both = stored(rate) | {"power": {"of": 1000, "cells": {"plan": (0.95, 0.01)}}}
        assert Figure("job", "plan", forecast="power").missed(both) == missed
    assert Figure("job", "never", most=0.025).rate(stored(0.0)) == (0.0, pytest.approx(0.001, 1e-2))
    assert Figure("other", "plan").rate(stored(0.0)) is None


def test_the_plan_keeps_its_promises_in_the_stored_results(record: dict[str, Any]) -> None:
    assert missed_targets(record["jobs"]) == []


@pytest.mark.parametrize("key", ["wrong units", "one model, 16, 0, lost 0 and 0"])
def test_a_cell_is_made_again_by_its_own_stream(key: str, record: dict[str, Any]) -> None:
    """Of 100 studies, which are not all that are stored: near them, and the same twice."""
    one, two = (all_jobs()[key].run(100, key) for _ in range(2))
    assert one == two
    for name, (rate, error) in one["cells"].items():
        assert rate == pytest.approx(record["jobs"][key]["cells"][name][0], abs=5 * error)

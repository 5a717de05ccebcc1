"""docs/statistics.md is what its stored results say, and names the command that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.statistics.jobs import all_jobs, stream_of
from benchmarks.statistics.page import COMMAND, agreement, render

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "statistics.json").read_text(encoding="utf-8"))
    return found


def test_the_page_is_rendered_from_the_stored_results(record: dict[str, Any]) -> None:
    page = (DOCS / "statistics.md").read_text(encoding="utf-8")
    assert page == render(record["jobs"])
    assert COMMAND in page.replace("\n", " ")
    assert record["made_by"] == COMMAND


def test_every_cell_was_simulated_in_full(record: dict[str, Any]) -> None:
    jobs = all_jobs()
    assert list(record["jobs"]) == list(jobs)
    assert {key: held["of"] for key, held in record["jobs"].items()} == {
        key: round(2000 * job.part) for key, job in jobs.items()
    }
    assert "| … |" not in render(record["jobs"])
    assert "| … |" in render({})  # what is not there is seen


def test_the_figures_are_the_specifications(record: dict[str, Any]) -> None:
    checked, apart = agreement(record["jobs"])
    assert checked > 180
    assert len(apart) <= 0.02 * checked, apart


def test_the_gates_hold_in_the_stored_results(record: dict[str, Any]) -> None:
    jobs = record["jobs"]
    for key in (key for key in jobs if key.startswith("size ")):
        cells = {name: cell[0] for name, cell in jobs[key]["cells"].items()}
        assert 0.035 <= cells["permutation"] <= 0.065
        assert 0.035 <= cells["permutation, ANCOVA"] <= 0.065
        assert cells["pooled criteria"] > 0.5
        assert 0.93 <= cells["coverage"] <= 0.97
    assert jobs["size C K4 S4 R3"]["cells"]["cr1"][0] > 0.07
    for key in (key for key in jobs if key.startswith("looks null")):
        rate, error = jobs[key]["cells"]["joint, window scan"]
        assert rate <= 0.025 + 3 * error


@pytest.mark.parametrize("key", ["regime A", "size A K4 S4 R1"])
def test_a_cell_is_made_again_by_its_own_stream(key: str, record: dict[str, Any]) -> None:
    """Of 100 replications, which are not those that are stored: near them, and the same twice."""
    one, two = (all_jobs()[key].run(100, stream_of(key)) for _ in range(2))
    assert one == two
    for name, (value, error) in one.items():
        stored = record["jobs"][key]["cells"][name][0]
        assert value == pytest.approx(stored, abs=5 * error + 1e-5)

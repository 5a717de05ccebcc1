"""docs/calibration.md: its numbers are the stored ones, which hold what the project promises."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.leaks.page import PARTS, render_page

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/calibration.md").read_text()


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "docs/calibration.json").read_text())
    return read


def test_the_page_is_what_is_stored(stored: dict[str, Any]) -> None:
    assert render_page(TEXT, stored) == TEXT, "run `python -m benchmarks.leaks PART --write`"
    assert set(re.findall(r"<!-- made: ([a-z ]+) -->", TEXT)) == set(PARTS)


def test_models_without_a_leak_raise_no_more_alarms_than_promised(stored: dict[str, Any]) -> None:
    blank = stored["blank"]
    assert (blank["models"], blank["draws"]) == (20, 50)
    assert 0.015 <= blank["rate"] <= 0.037


def test_the_forecast_of_power_holds_within_its_error(stored: dict[str, Any]) -> None:
    compared = 0
    for row in stored["doses"]["doses"]:
        for size in row["by_size"]:
            if row["dose"] in (1, 2):
                forecast, count = size["forecast"], size["of"]
                error = math.sqrt(forecast * (1 - forecast) / count) + 1 / count
                assert abs(size["found"] / count - forecast) <= 3 * error, (row["dose"], size)
                compared += 1
    assert compared == 8


def test_the_study_clears_no_leak_and_accuses_no_clean_model(stored: dict[str, Any]) -> None:
    found = {row["dose"]: (row["found"], row["tested"]) for row in stored["study"]["rows"]}
    assert found[0] == (0, 3)
    assert all(found[dose] == (3, 3) for dose in (4, 8, 16))
    gaps = [row["gap"] for row in stored["study"]["rows"]]
    assert gaps == sorted(gaps)

"""The Python API on the stored demo study; the examples of docs/python-api.md run as they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from registry.result_row import COLUMNS
from study.api import open_study
from study.errors import StudyError
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples_of_the_page_run(
    stored_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(stored_demo, tmp_path / "demo-study")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks), "docs/python-api.md", "exec"), names)
    assert names["report"].through_wave == 1
    assert names["page"].is_file()
    assert max(len(repr(names[name])) for name in ("study", "report")) < 200
    assert len(repr(names["instance"])) < 9000, "no bytes of its files"


def test_results_are_the_rows_of_all_waves(demo_study: Path) -> None:
    rows = open_study(demo_study).results()
    assert list(rows.columns) == list(COLUMNS)
    assert set(rows.wave) == {0, 1, 2}
    assert set(rows.arm) == {"public", "private"}
    assert len(rows) == 676 * rows.grader.nunique()


def test_looks_and_verdicts_are_those_on_record(demo_study: Path) -> None:
    opened = open_study(demo_study)
    assert list(opened.looks().wave) == [1, 2]
    verdicts = opened.verdicts(wave=1).set_index("model")
    assert verdicts.verdict["strong-1"] == "contaminated"
    assert verdicts.verdict["honest-1"] != "contaminated"
    low, high = verdicts[["interval_low", "interval_high"]].T["mild-1"]
    assert (round(low, 1), round(high, 1)) == (19.3, 71.0), "points, as the report has them"
    with pytest.raises(StudyError, match="no report through wave 0"):
        opened.verdicts(wave=0)
    with pytest.raises(StudyError, match="through wave 2 is not in the folder"):
        opened.verdicts()  # the fixture lacks the last report's folder


def test_a_colleague_without_the_key_reads_what_is_published(demo_study: Path) -> None:
    shutil.rmtree(demo_study / "keys")
    opened = open_study(demo_study)
    public = opened.public_results(wave=1)
    assert list(public.columns) == cases(__file__, "columns")
    (mean,) = public.query(
        "wave == 0 and model == 'before-1' and stratum == 'all' and arm == 'public'"
    )["mean"]
    assert round(mean, 1) == 96.1
    assert "public_results" in (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    assert len(repr(opened)) < 200


def test_status_has_a_row_for_each_step(demo_study: Path) -> None:
    assert list(open_study(demo_study).status().state) == ["done"] * 7

"""The report of the stored demo study stays what it was, but for what the changelog names."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from study.steps import pipeline


@pytest.fixture(scope="module")
def made(stored_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report that is made anew of the study as it is stored."""
    folder = tmp_path_factory.mktemp("anew") / "demo-study"
    shutil.copytree(stored_demo, folder, ignore=shutil.ignore_patterns("wave-2"))
    study = pipeline.open_study(folder)
    pipeline.report(study)
    looks = [entry.record for entry in study.ledger.find("report")]
    last = {(look.table, look.plan, look.deviations) for look in looks if look.through_wave == 2}
    assert len(last) == 1, "another table of results was looked at"
    return folder / "reports/wave-2"


def differences(then: Any, now: Any, place: str = "") -> list[str]:
    """Where two JSON values differ, by path; a list that was empty may be gone."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = sorted(then.keys() | now.keys())
        return [d for k in keys for d in differences(then.get(k), now.get(k), f"{place}/{k}")]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{place}/{i}")]
    return [] if then == now or (then, now) == ([], None) else [f"{place}: {then!r} is now {now!r}"]


def test_report_json_is_equal(made: Path, stored_demo: Path) -> None:
    then = json.loads((stored_demo / "reports/wave-2/report.json").read_text(encoding="utf-8"))
    assert differences(then, json.loads((made / "report.json").read_text(encoding="utf-8"))) == []


def test_markdown_and_tables_are_equal(made: Path, stored_demo: Path) -> None:
    stored = stored_demo / "reports/wave-2"
    tables = sorted(path.name for path in (stored / "tables").iterdir())
    assert sorted(path.name for path in (made / "tables").iterdir()) == tables
    names = ["report.md", *(f"tables/{name}" for name in tables)]
    changed = [
        name
        for name in names
        if (stored / name).read_text(encoding="utf-8") != (made / name).read_text(encoding="utf-8")
    ]
    assert changed == []


def text_of(page: str) -> str:
    """The words of an HTML page without styles, figures and blank lines; a table cell is a line."""
    text = re.sub(r"<(style|svg|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "\n", text))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def test_the_page_reads_as_its_snapshot(made: Path, snapshot: SnapshotAssertion) -> None:
    """`pytest tests/study/test_stored_demo.py --snapshot-update` accepts a new wording."""
    assert text_of((made / "report.html").read_text(encoding="utf-8")) == snapshot

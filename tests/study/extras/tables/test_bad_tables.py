"""Tables that are none: one line with the cause, exit code 2, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from study.main import main
from tests.cases import cases


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(reader: Callable[[Path], Any], path: Path) -> Any:
        return reader(path)

    monkeypatch.setattr("study.extras.tables.external_table.read_from_elsewhere", read)


def refused(path: Path, *options: str) -> str:
    out = path.parent / "new" / "report"
    result = CliRunner().invoke(main, ["analyze", str(path), "--out", str(out), *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert [*path.parent.iterdir()] == [path]
    return result.stderr.removeprefix(f"dosimeter: {path}: ")


@pytest.mark.parametrize("case", cases(__file__, "tables"), ids=lambda case: case["says"][:40])
def test_a_bad_table_is_one_line_and_writes_nothing(tmp_path: Path, case: dict[str, str]) -> None:
    path = tmp_path / case.get("name", "t.csv")
    path.write_bytes(case["text"].encode(case.get("encoding", "utf-8")))
    options = case.get("options", "--allocation random").split()
    assert refused(path, *options).startswith(case["says"])


@pytest.mark.parametrize(("text", "says"), cases(__file__, "large_cells"))
def test_a_cell_of_ten_megabytes_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text.format("x" * 10_000_000), encoding="utf-8")
    assert says in refused(path, "--allocation=random")

"""`tools`: from the stored attempts of a study to tables, a page and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from study.extras.transcripts.find import list_episodes
from study.main import main
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study


def run(study: Study, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["show", "--tools", *arguments, "--study", str(study.folder)])


def test_the_counts_are_those_of_the_results(finished: Study) -> None:
    told = json.loads(run(finished, "--json").stdout)
    results = [each.result for each in list_episodes(take_snapshot(finished)) if each.result]
    assert sum(row["calls"] for row in told["models"]) == sum(r.tool_calls for r in results)
    assert sum(row["rounds"] for row in told["models"]) == sum(r.turns for r in results)
    assert sum(row["calls"] for row in told["by_seed"]) == sum(r.tool_calls for r in results)
    assert {row["wave"] for row in told["models"]} == {0, 1}
    assert told["left_out"] == 0


def test_one_wave_alone_and_no_arm_anywhere(finished: Study, tmp_path: Path) -> None:
    shown = run(finished, "--wave", "1", "--out", str(tmp_path / "out"))
    assert shown.exit_code == 0, shown.output
    assert "execute_python" in shown.stdout
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["by_seed.csv", "by_task.csv", "by_tool.csv", "models.csv", "tools.html"]
    entries = finished.entries()
    for path in (tmp_path / "out").iterdir():
        text = path.read_text()
        assert "private" not in text
        assert not any(e.instance in text or e.seed in text for e in entries)


def test_without_the_key_it_says_what_is_needed(
    finished: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "none"))
    refused = run(finished)
    assert refused.exit_code == 2
    assert "sealed to the study's key" in refused.stderr

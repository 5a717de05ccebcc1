"""`tools`: from the stored attempts of a study to tables."""

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


def test_one_wave_alone_and_no_arm_anywhere(finished: Study) -> None:
    shown, told = run(finished, "--wave", "1"), run(finished, "--wave", "1", "--json")
    assert shown.exit_code == told.exit_code == 0, shown.output
    assert "execute_python" in shown.stdout
    assert {row["wave"] for row in json.loads(told.stdout)["by_seed"]} == {1}
    for text in (shown.stdout, told.stdout):
        assert "private" not in text
        assert not any(e.instance in text or e.seed in text for e in finished.entries())


def test_without_the_key_it_says_what_is_needed(
    finished: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "none"))
    refused = run(finished)
    assert refused.exit_code == 2
    assert "sealed to the study's key" in refused.stderr

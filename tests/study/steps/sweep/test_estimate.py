"""What grading the first wave's answers again will take, before anything was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from study.main import main

STUDY = """\
study: pilot
tasks: [compute_average/hard, count_circles/easy]
seeds_per_arm: 5
replicates: 3
models:
  old: {provider: openai, model: old-1, base_url: "http://127.0.0.1:9/v1", released: 2025-01-01}
  new: {provider: openai, model: new-1, base_url: "http://127.0.0.1:9/v1"}
judges:
  flash: {provider: openai, model: flash-1, max_tokens: 300, base_url: "http://127.0.0.1:9/v1"}
plan:
  preset: standard-v1
  second_grader: flash
  controls: {pre_exposure: [old], regrade: 0.5}
waves:
  - [old, new]
  - [new]
  - [old]
"""


def foretell(folder: Path, wave: int, *options: str) -> str:
    arguments = ["sweep", "--wave", str(wave), "--estimate", "--study", str(folder), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("wave", "share", "episodes"),
    [
        (0, "0.5", None),  # the first wave's answers are those that are graded again
        (1, "0.5", 2 * 2 * 3 * 6),  # strata, arms, 3 of 5 instances, 2 models of 3 replicates
        (1, "0.2", 2 * 2 * 1 * 6),
        (1, "0", None),
        (2, "0.5", None),  # controls only: no look
    ],
)
def test_a_share_of_each_arm_is_foretold(
    tmp_path: Path, wave: int, share: str, episodes: int | None
) -> None:
    text = STUDY.replace("regrade: 0.5", f"regrade: {share}")
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    told = json.loads(foretell(tmp_path, wave, "--json"))["regrading"]
    assert (told and (told["judge"], told["episodes"])) == (episodes and ("flash", episodes))


def test_it_is_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    said = "judge flash, wave 0 again: it has not graded two instances"
    assert said in foretell(tmp_path, 1)
    assert said not in foretell(tmp_path, 0)

"""Completion in the shell: names of models, judges, tasks; silent on errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from study.main import main

STUDY = """\
study: complete
tasks: [compute_average/easy]
seeds_per_arm: 2
models:
  honest-1: {provider: scripted, agent: honest, error_rate: 0.3}
  honest-2: {provider: scripted, agent: honest, error_rate: 0.4}
  other: {provider: scripted, agent: honest, error_rate: 0.5}
judges:
  kind: {provider: openai, base_url: "http://127.0.0.1:9/v1", model: m, api_key_env: ""}
waves: [[honest-1]]
sandbox: {kind: local}
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "study.yaml").write_text(STUDY)
    return str(tmp_path)


def completions(words: list[str], incomplete: str) -> list[str]:
    complete = ShellComplete(main, {}, "dosimeter", "_DOSIMETER_COMPLETE")
    return [item.value for item in complete.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["probe", "--model"], "hon", ["honest-1", "honest-2"]),
        (["calibrate", "--model"], "", ["honest-1", "honest-2", "other"]),
        (["show", "--model"], "honest-2", ["honest-2"]),
        (["wave", "open", "--models"], "other,hon", ["other,honest-1", "other,honest-2"]),
        (["judge", "grade", "--judge"], "", ["kind"]),
        (["judge", "check"], "k", ["kind"]),
    ],
)
def test_names_of_the_study(
    folder: str, words: list[str], incomplete: str, expected: list[str]
) -> None:
    # Click reads --study before or after the option that is completed only if it stands before.
    placed = [*words[:-1], "--study", folder, words[-1]]
    if words[-1] == "check":
        placed = [*words, "--study", folder]
    assert completions(placed, incomplete) == expected


def test_names_of_the_study_here(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert completions(["probe", "--model"], "oth") == ["other"]


def test_tasks_of_the_catalogue() -> None:
    assert completions(["tasks", "show"], "count_circles/e") == ["count_circles/easy"]
    assert completions(["tasks", "check"], "count_c") == ["count_circles"]


@pytest.mark.parametrize("text", [None, "study: [", "study: x\n", "\0"])
def test_a_study_that_cannot_be_read_completes_nothing(
    tmp_path: Path, text: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "study.yaml").write_text(text)
    assert completions(["probe", "--study", str(tmp_path), "--model"], "") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_s_script_is_printed(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from study.main import main; main(prog_name='dosimeter')"],
        env={**os.environ, "_DOSIMETER_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "_DOSIMETER_COMPLETE" in done.stdout, done.stderr

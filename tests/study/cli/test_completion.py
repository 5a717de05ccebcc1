"""Completion in the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from study.main import main


def completions(words: list[str], incomplete: str) -> list[str]:
    complete = ShellComplete(main, {}, "dosimeter", "_DOSIMETER_COMPLETE")
    return [item.value for item in complete.get_completions(words, incomplete)]


def test_commands_and_options() -> None:
    assert completions([], "pro") == ["probe"]
    assert completions(["tasks"], "sh") == ["show"]
    assert "--replicates" in completions(["calibrate"], "--rep")


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
